"""The JSON Schema and the parser agree."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.policy.rules import parse
from headgate.policy.rules.schema import schema
from headgate.policy.rules.vocabulary import (
    ACTIONS,
    DOCUMENT_KEYS,
    FIELDS,
    MODEL_MATCHES,
    OPERATORS,
    RULE_KEYS,
    SELECTIONS,
    find_field,
)

VALIDATOR = jsonschema.Draft202012Validator(schema())


def document(condition: Any = "always", action: Any = None, **more: Any) -> dict[str, Any]:
    rule = {"name": "r", "condition": condition, "action": action or {"use": "platform-scheduler"}, **more}
    return {"scheduler": {"name": "p", "rules": [rule]}}


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_schema_knows_the_words_of_the_parser() -> None:
    defs = schema()["$defs"]
    assert tuple(defs["scheduler"]["properties"]) == DOCUMENT_KEYS
    assert sorted(defs["rule"]["properties"]) == sorted(RULE_KEYS)
    assert tuple(defs["action"]["properties"]) == ACTIONS
    dispatch = defs["action"]["properties"]["dispatch"]["properties"]
    assert tuple(dispatch["worker_selection"]["enum"]) == SELECTIONS
    assert tuple(dispatch["model_match"]["enum"]) == MODEL_MATCHES
    assert sorted(defs["anyTest"]["anyOf"][1]["properties"]) == sorted(OPERATORS)


@pytest.mark.parametrize("field", [*FIELDS, "job.labels.x", "job.nothing", "job.labels.", "time.minute"])
@pytest.mark.parametrize("operator", [*OPERATORS, "like"])
def test_field_and_operator_are_accepted_by_both_or_neither(field: str, operator: str) -> None:
    known = find_field(field)
    number = known is not None and known.kind == "number"
    value: Any = 1 if number or operator in ("gt", "gte", "lt", "lte") else "x"
    operand = {"exists": True, "in": [value], "not_in": [value], "between": [1, 2]}.get(operator, value)
    source = document({field: {operator: operand}})
    assert VALIDATOR.is_valid(source) == (parse(json.dumps(source))[0] is not None)


ODD = [
    document("never"), document([]), document({}), document({"all": []}), document({"not": "always"}),
    document({"job.units": "8GB"}), document({"job.units": "8 apples"}), document({"job.tenant": 5}),
    document({"job.units": {"between": [1]}}), document({"job.labels": 1}), document({"job.priority": True}),
    document(action={"dispatch": None}), document(action={"dispatch": {"worker_selection": "best"}}),
    document(action={"wait": {"duration_ms": -1}}), document(action={"wait": {"duration_ms": 1.5}}),
    document(action={"evict": {}}), document(action={"evict": {"select": "lru"}}),
    document(action={"evict": {"select": "lru", "worker_id": "w"}}), document(action={"preempt": {"classes": []}}),
    document(action={"preempt": {"classes": ["low"]}}), document(action={"start_worker": {"gpu_id": -1}}),
    document(action={"start_worker": {"gpu_id": "gpu-0"}}), document(action={"use": "mine"}),
    document(action={"lua": "return nil"}), document(action={"lua": {"script": "function schedule() end"}}),
    document(action={"lua": ""}), document(action={"wait": {}, "use": "platform-scheduler"}),
    document(priority=1), document(priority="1"), document(enabled="yes"), document(extra=1), document(description=None),  # noqa: E501
    {"scheduler": {"name": "", "rules": []}}, {"scheduler": {"name": "p"}}, {"scheduler": {"name": "p", "rules": []}},
    {"scheduler": {"name": "p", "version": "x", "rules": []}}, {"scheduler": {"name": "p", "version": 1.0, "rules": []}},  # noqa: E501
    {}, [], {"other": 1}, {"scheduler": None},
]  # fmt: skip


@pytest.mark.parametrize("source", ODD)
def test_odd_documents_are_accepted_by_both_or_neither(source: Any) -> None:
    assert VALIDATOR.is_valid(source) == (parse(json.dumps(source))[0] is not None)


KEYS = st.sampled_from(["all", "any", "not", "job.units", "job.name", "job.labels.x", "gt", "eq", "in", "exists"])
TREES = st.recursive(
    st.sampled_from(["always", "x", "8GB", 1, True, None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(TREES)
def test_any_condition_is_accepted_by_both_or_neither(condition: Any) -> None:
    source = document(condition)
    assert VALIDATOR.is_valid(source) == (parse(json.dumps(source))[0] is not None)
