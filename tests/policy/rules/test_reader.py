"""Lua comes back as the rules it was compiled from, or whole as a raw card."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lupa import luajit21

from headgate.policy.rules import compile_source, parse, read_lua, to_yaml
from headgate.policy.rules.compiler import CompileCache, compile_policy
from headgate.policy.rules.luatext import quoted
from headgate.policy.rules.model import (
    All,
    Always,
    AnyOf,
    Comparison,
    Condition,
    Dispatch,
    Evict,
    LuaBody,
    LuaScript,
    Not,
    Policy,
    Preempt,
    Rule,
    StartWorker,
    UsePlatform,
    Wait,
)
from headgate.policy.rules.vocabulary import EVICTIONS, MODEL_MATCHES, SELECTIONS

NAMES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
COMPARISONS = st.one_of(
    st.builds(Comparison, st.just("job.units"), st.sampled_from(["eq", "ne", "gt", "lte"]), st.integers(-9, 9)),
    st.builds(Comparison, st.just("job.estimated_vram"), st.just("gte"), st.sampled_from(["8GB", "1.5GiB", 0.25])),
    st.builds(Comparison, st.just("job.name"), st.sampled_from(["eq", "contains", "starts_with"]), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),  # noqa: E501
    st.builds(Comparison, st.just("worker.labels.zone"), st.sampled_from(["in", "not_in"]), st.lists(NAMES, min_size=1, max_size=3).map(tuple)),  # noqa: E501
    st.builds(Comparison, st.just("time.hour"), st.just("between"), st.just((22, 5))),
    st.builds(Comparison, st.just("tenant.weight"), st.just("exists"), st.booleans()),
)  # fmt: skip
CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    st.just(Always()) | COMPARISONS,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(All, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
LUA = st.sampled_from(["return nil", "local s = [[\n  two\n]]\nreturn s\n", '-- rule 1: "x"\n-- then: {}\nreturn nil', "-- é\r\nreturn nil\n\n"])  # fmt: skip  # noqa: E501
ACTIONS = st.one_of(
    st.builds(Dispatch, st.sampled_from(SELECTIONS), st.sampled_from([*MODEL_MATCHES, None])),
    st.builds(Wait, st.none() | st.integers(0, 99)),
    st.builds(Evict, worker_id=NAMES),
    st.builds(Evict, select=st.sampled_from(EVICTIONS)),
    st.builds(StartWorker, st.none() | NAMES, st.none() | NAMES, st.none() | st.integers(0, 7) | NAMES),
    st.just(Preempt(("low", "background"))),
    st.just(UsePlatform()),
    st.builds(LuaBody, LUA),
    st.builds(LuaScript, LUA),
)
DESCRIPTIONS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RULES = st.builds(Rule, NAMES, CONDITIONS, ACTIONS, st.integers(-5, 5), st.booleans(), DESCRIPTIONS)
POLICIES = st.builds(
    Policy,
    NAMES,
    st.lists(RULES, max_size=4, unique_by=lambda rule: rule.name).map(tuple),
    st.none() | st.just("1.2.3-rc.1"),
    DESCRIPTIONS,
)


@settings(max_examples=200, deadline=None)
@given(POLICIES)
def test_every_policy_survives_yaml_and_lua_and_is_valid_lua(policy: Policy) -> None:
    assert parse(to_yaml(policy))[0] == policy
    compiled = compile_source(to_yaml(policy))
    recovered = read_lua(compiled.lua)
    assert recovered.exact
    assert recovered.policy == policy
    lua = luajit21.LuaRuntime(encoding=None)
    lua.execute(b"local load = loadstring\nfunction check(text) assert(load(text)) end")
    lua.globals().check(compiled.lua.encode())


@settings(max_examples=50, deadline=None)
@given(POLICIES, st.integers(0, 10_000), st.sampled_from([" ", "x", "\n", "--"]))
def test_a_compiled_text_that_was_touched_is_kept_whole(policy: Policy, at: int, insert: str) -> None:
    lua = compile_source(to_yaml(policy)).lua
    touched = lua[: at % len(lua)] + insert + lua[at % len(lua) :]
    recovered = read_lua(touched)
    if recovered.exact:  # a change inside a comment may itself be what the compiler would write
        sha256 = touched.split("sha256 ")[1][:64]
        assert compile_policy(recovered.policy, sha256)[0] == touched
    else:
        assert recovered.policy.rules[0].action == LuaScript(touched)


@pytest.mark.parametrize("ending", ["\n", "", "\n\n", "\r\n", "  "])
def test_a_foreign_script_becomes_one_raw_card_that_still_runs(run: Any, ending: str) -> None:
    script = (
        "-- mine\nlocal calls = 0\nfunction schedule(context)\n  calls = calls + 1\n"
        '  return { action = "wait", reason = "mine " .. calls }\nend' + ending
    )
    recovered = read_lua(script, name="mine")
    assert not recovered.exact
    assert recovered.policy.name == "mine"
    source = to_yaml(recovered.policy)
    assert parse(source)[0] == recovered.policy
    assert recovered.policy.rules[0].action == LuaScript(script)
    assert run(source) == {"action": "wait", "reason": "mine 1", "rule": "raw-lua"}
    again = read_lua(compile_source(source).lua)
    assert again.exact
    assert again.policy == recovered.policy


def test_the_same_source_gives_the_same_bytes_and_one_result() -> None:
    source = "scheduler: {name: p, rules: [{name: r, condition: {job.labels.x: 1}, action: {dispatch: }}]}"
    first, second = CompileCache().compile(source), CompileCache().compile(source.encode())
    assert first == second
    assert first.lua == second.lua
    assert compile_source(source) is compile_source(source)


def test_the_cache_forgets_the_oldest() -> None:
    cache = CompileCache(size=2)
    sources = [f"scheduler: {{name: p{n}, rules: []}}" for n in range(3)]
    first = cache.compile(sources[0])
    assert cache.compile(sources[0]) is first
    for source in sources[1:]:
        cache.compile(source)
    assert cache.compile(sources[0]) is not first


def test_the_header_tells_name_version_and_hash_and_the_map_tells_lines() -> None:
    source = (
        "scheduler:\n  name: p\n  version: 2.1.0\n  rules:\n"
        "    - name: late\n      condition: always\n      action: {wait: {}}\n      priority: -1\n\n"
        "    - name: off\n      condition: always\n      action: {wait: {}}\n      enabled: false\n"
    )
    compiled = compile_source(source)
    lines = compiled.lua.splitlines()
    assert lines[:3] == ['-- policy: "p"', '-- version: "2.1.0"', f"-- source: sha256 {compiled.sha256}"]
    assert compiled.source_map["late"].yaml == (5, 8)
    assert compiled.source_map["off"].yaml == (10, 13)
    start, end = compiled.source_map["late"].lua
    assert lines[start - 1] == '-- rule 1: "late"'
    assert lines[end - 1] == "end"
    start, end = compiled.source_map["off"].lua
    assert lines[start - 1] == '-- rule 2: "off"'
    assert all(line.startswith("--") for line in lines[start - 1 : end])


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_a_lua_literal(text: str) -> None:
    lua = luajit21.LuaRuntime()
    assert lua.eval(quoted(text)) == text
    assert "\n" not in quoted(text)


def test_names_that_look_like_code_stay_names(run: Any) -> None:
    name = '"] end os.exit() --[[ \\'
    source = json.dumps(
        {
            "scheduler": {
                "name": "--]]",
                "rules": [{"name": name, "condition": "always", "action": {"wait": {}}}],
            }
        }
    )
    assert run(source)["rule"] == name
