"""Loading: what is refused, and how exactly it is said where."""

from __future__ import annotations

import pytest

from headgate.policy.runtime import MAX_SOURCE_BYTES, PolicyRefused, Runtime
from tests.policy.world import QUESTION, evaluate, runtime_with


def refused(source: str | bytes) -> PolicyRefused:
    with pytest.raises(PolicyRefused) as caught:
        Runtime().load(source)
    return caught.value


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("function schedule(", 1, 19),
        ("function schedule(c)\n  local x = = 1\nend", 2, 13),
        ("function schedule(c)\n  if x = 1 then end\nend", 2, 8),
        ("x = 1\ny = 2 ) z", 2, 7),
        ("function schedule(c) return ) ) end", 1, 29),
    ],
)
def test_a_syntax_error_names_line_and_column(source: str, line: int, column: int) -> None:
    error = refused(source)
    assert (error.kind, error.line, error.column) == ("syntax", line, column)


def test_what_is_no_policy_is_refused_with_its_reason() -> None:
    assert refused("x = 1").kind == "schedule"
    assert refused("schedule = 7").kind == "schedule"
    assert refused(b"\x1bLJ\x02").kind == "bytecode"
    assert refused(b"\xff\xfe").kind == "encoding"
    assert refused("-" * (MAX_SOURCE_BYTES + 1)).kind == "size"
    error = refused("local x = nil\nx.y = 1")
    assert (error.kind, error.line) == ("error", 2)


def test_ten_megabytes_are_refused_before_any_parser_sees_them() -> None:
    assert refused("function schedule() end --" + "x" * 10_000_000).kind == "size"


def test_a_refused_policy_leaves_the_one_before_in_place() -> None:
    runtime = runtime_with()
    runtime.load("function schedule(c) return { action = 'wait', reason = 'good' } end")
    with pytest.raises(PolicyRefused):
        runtime.load("function schedule(")
    assert runtime.ask(QUESTION).actions[0]["reason"] == "good"


ABSENT = """
os io debug package require module load loadstring loadfile dofile ffi jit bit python newproxy getfenv setfenv
getmetatable setmetatable rawget rawset rawequal collectgarbage gcinfo coroutine print xpcall unpack
"""


@pytest.mark.parametrize("name", ABSENT.split())
def test_a_name_outside_the_allow_list_is_nil(name: str) -> None:
    assert evaluate(runtime_with(), f"{name} == nil and _G['{name}'] == nil") == "true"


BASE = ("ipairs", "pairs", "next", "select", "type", "tostring", "tonumber", "pcall", "error", "assert")


@pytest.mark.parametrize("name", BASE)
def test_the_base_library_of_the_contract_is_there(name: str) -> None:
    assert evaluate(runtime_with(), f"type({name})") == "function"


def test_the_runtime_tells_its_name() -> None:
    runtime = runtime_with()
    runtime.load("function schedule() end")
    assert runtime.ask(QUESTION).runtime == runtime.name
    assert runtime.name.startswith("LuaJIT 2.1")
