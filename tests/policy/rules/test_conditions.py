"""Every operator, run in LuaJIT."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.policy.rules import compile_source
from headgate.policy.rules.vocabulary import FIELDS, OPERATORS, find_field


def policy(condition: Any, action: Any = None) -> str:
    rule = {"name": "r", "condition": condition, "action": action or {"wait": {"duration_ms": 7}}}
    return json.dumps({"scheduler": {"name": "p", "rules": [rule]}})


def holds(run: Any, condition: Any, **world: Any) -> bool:
    return bool(run(policy(condition), **world).get("rule") == "r")


CASES = [
    ({"job.seed": {"exists": True}}, {"seed": 0}, True),
    ({"job.seed": {"exists": True}}, {}, False),
    ({"job.seed": {"exists": False}}, {}, True),
    ({"job.tenant": "default"}, {}, True),
    ({"job.tenant": {"eq": "other"}}, {}, False),
    ({"job.tenant": {"ne": "other"}}, {}, True),
    ({"job.tenant": {"ne": "default"}}, {}, False),
    ({"job.tenant": {"in": ["a", "default"]}}, {}, True),
    ({"job.tenant": {"in": ["a", "b"]}}, {}, False),
    ({"job.tenant": {"not_in": ["a", "b"]}}, {}, True),
    ({"job.tenant": {"not_in": ["default"]}}, {}, False),
    ({"job.attempt": {"in": list(range(40))}}, {"attempt": 39}, True),
    ({"job.attempt": {"not_in": list(range(40))}}, {"attempt": 40}, True),
    ({"job.units": {"gt": 4}}, {"units": 5}, True),
    ({"job.units": {"gt": 4}}, {"units": 4}, False),
    ({"job.units": {"gte": 4}}, {"units": 4}, True),
    ({"job.units": {"lt": 4}}, {"units": 3.5}, True),
    ({"job.units": {"lt": 4}}, {"units": 4}, False),
    ({"job.units": {"lte": 4}}, {"units": 4}, True),
    ({"job.units": {"between": [2, 4]}}, {"units": 2}, True),
    ({"job.units": {"between": [2, 4]}}, {"units": 4}, True),
    ({"job.units": {"between": [2, 4]}}, {"units": 5}, False),
    ({"job.estimated_vram": {"gte": "8GB"}}, {"estimated_vram": 8_000_000_000}, True),
    ({"job.estimated_vram": {"gte": "8GiB"}}, {"estimated_vram": 8_000_000_000}, False),
    ({"job.model_ref": {"matches": "^llama-(7|13)b$"}}, {"model_ref": "llama-13b"}, True),
    ({"job.model_ref": {"matches": "^llama-(7|13)b$"}}, {"model_ref": "llama-70b"}, False),
    ({"job.model_ref": {"starts_with": "llama-"}}, {"model_ref": "llama-70b"}, True),
    ({"job.model_ref": {"starts_with": "llama-"}}, {"model_ref": "codellama-7b"}, False),
    ({"job.model_ref": {"contains": "a-7"}}, {"model_ref": "llama-7b"}, True),
    ({"job.model_ref": {"contains": ".*"}}, {"model_ref": "llama-7b"}, False),
    ({"job.labels": {"contains": "team"}}, {"labels": {"team": "x"}}, True),
    ({"job.labels.team": "x"}, {"labels": {"team": "x"}}, True),
    ({"job.labels.a.b/c": "x"}, {"labels": {"a.b/c": "x"}}, True),
    ({"job.labels.flag": True}, {"labels": {"flag": True}}, True),
    ({"job.resources.cpu": {"gt": 1}}, {"resources": {"cpu": 2}}, True),
    ({"all": [{"job.units": 1}, {"job.tenant": "default"}]}, {}, True),
    ({"all": [{"job.units": 1}, {"job.tenant": "no"}]}, {}, False),
    ({"any": [{"job.units": 9}, {"job.tenant": "default"}]}, {}, True),
    ({"not": {"job.units": 9}}, {}, True),
    ({"not": {"any": [{"job.units": 9}, {"all": [{"job.units": 1}, "always"]}]}}, {}, False),
    ({"job.units": {"gte": 1, "lt": 2}}, {}, True),
    ({"job.units": 1, "job.tenant": "no"}, {}, False),
    ({"job.name": 'grüße "\\\n'}, {"name": 'grüße "\\\n'}, True),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "fields", "expected"), CASES)
def test_an_operator_holds_exactly_when_it_should(
    run: Any, build: Any, condition: Any, fields: dict[str, Any], expected: bool
) -> None:
    assert holds(run, condition, queue=[build.job("j", **fields)]) is expected


def test_every_operator_has_a_case() -> None:
    text = json.dumps([case[0] for case in CASES])
    assert [name for name in OPERATORS if f'"{name}"' not in text] == []


def test_world_tenant_and_worker_fields_are_looked_up(run: Any, build: Any) -> None:
    world = {
        "queue": [build.job("j")],
        "pools": [build.pool(build.worker("w", pool_id="pool-1", gpu_ids=[3], labels={"zone": "a"}))],
        "metrics": {"queue_depth": 3, "queue_depth_by_class": {"low": 2}},
        "time": {"hour": 23, "weekday": 5},
        "tenants": [{"id": "other", "weight": 9}, {"id": "default", "weight": 2, "usage": {"vram": 5}}],
    }
    for condition in (
        {"metrics.queue_depth": {"gt": 2}},
        {"metrics.queue_depth_by_class.low": 2},
        {"time.hour": {"gte": 22}, "time.weekday": {"in": [5, 6]}},
        {"time.hour": {"between": [22, 5]}},
        {"tenant.weight": 2},
        {"tenant.usage.vram": {"lte": 5}},
        {"worker.pool_id": "pool-1"},
        {"worker.gpu_ids": {"contains": 3}},
        {"worker.labels.zone": "a", "tenant.id": "default"},
        {"any": [{"worker.id": "nobody"}, {"tenant.weight": 2}]},
    ):
        assert holds(run, condition, **world), condition
    for condition in (
        {"time.hour": {"between": [6, 21]}},
        {"time.hour": {"between": [1, 22]}},
        {"worker.gpu_ids": {"contains": 1}},
        {"tenant.weight": 9},
        {"worker.id": "tenant.x"},
    ):
        assert not holds(run, condition, **world), condition


def _operand(field: str, operator: str) -> Any:
    found = find_field(field)
    assert found is not None
    number = found.kind == "number"
    many = {"in": [1] if number else ["x"], "not_in": [1] if number else ["x"], "between": [1, 2]}
    if operator in many:
        return many[operator]
    if operator == "exists":
        return True
    return 1 if number or operator in ("gt", "gte", "lt", "lte") else "x"


NIL_SAFE = [
    (field, operator)
    for field in (*FIELDS, "job.labels.x", "worker.resources_free.x", "tenant.quotas.x")
    for operator in getattr(find_field(field), "operators", ())
]


def test_a_missing_field_never_holds_and_never_fails(run: Any) -> None:
    bare_worker = {"id": "w", "status": "ready"}
    sparse = {"queue": [{"id": "j"}], "pools": [{"workers": [bare_worker]}]}
    always_there = {"job.id", "worker.id", "worker.status"}
    for field, operator in NIL_SAFE:
        if field not in always_there:
            assert not holds(run, {field: {operator: _operand(field, operator)}}, **sparse), (field, operator)


def test_a_value_of_the_wrong_type_never_fails(run: Any, build: Any) -> None:
    odd = build.job("j", units="many", model_ref=5, labels="none", attributes={"x": {}}, priority=3)
    for field in ("job.units", "job.model_ref", "job.labels.x", "job.attributes.x", "job.priority"):
        found = find_field(field)
        assert found is not None
        for operator in found.operators:
            run(policy({field: {operator: _operand(field, operator)}}), queue=[odd])


def test_a_numeric_priority_compares_as_a_number(run: Any, build: Any) -> None:
    assert holds(run, {"job.priority": {"gte": 4}}, queue=[build.job("j", priority=5)])
    assert not holds(run, {"job.priority": {"gte": 4}}, queue=[build.job("j", priority="high")])


def test_many_rules_exceed_no_limit_of_lua(run: Any) -> None:
    rules = [
        {"name": f"r{n}", "condition": {"job.units": n + 2}, "action": {"wait": {}}, "priority": n} for n in range(300)
    ]
    source = json.dumps({"scheduler": {"name": "p", "rules": rules}})
    assert run(source, queue=[{"id": "j", "units": 2}])["rule"] == "r0"


def test_two_names_that_look_alike_get_two_functions() -> None:
    rules: list[Any] = [
        {"name": name, "condition": "always", "action": {"dispatch": {}}} for name in ("a b", "a-b", "日本", "—")
    ]
    lua = compile_source(json.dumps({"scheduler": {"name": "p", "rules": rules}})).lua
    for function in ("rule_a_b(", "rule_a_b_2(", "rule_unnamed(", "rule_unnamed_2("):
        assert f"local function {function}" in lua
