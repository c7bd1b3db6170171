"""What Python writes Lua reads: any nested value, at every width of the wire format."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from headgate.policy.deltas import JobAdded, Reset
from headgate.policy.runtime import Runtime
from tests.policy.world import QUESTION

SHOW = """
local function show(v)
  if type(v) ~= "table" then return type(v) == "number" and string.format("%.17g", v) or tostring(v) end
  local parts = {}
  for k, x in pairs(v) do parts[#parts + 1] = tostring(k) .. "=" .. show(x) end
  return "{" .. table.concat(parts, ",") .. "}"
end
function schedule(c)
  local text = show(c.queue[1].attributes)
  for i = 1, #text, 500 do log.info(text:sub(i, i + 499)) end
  return { action = "wait", reason = c.queue[2].id }
end"""

letters = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=6)
leaves = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    letters,
    st.sampled_from([31, 32, 255, 256, 300, 3_000]).map(lambda n: "x" * n),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, min_size=1, max_size=20), st.dictionaries(letters, inner, max_size=20)),
    max_leaves=30,
)


def show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{float(value):.17g}"
    if isinstance(value, str):
        return value
    items = sorted(value.items()) if isinstance(value, dict) else enumerate(value, 1)
    return "{" + ",".join(f"{key}={show(item)}" for key, item in items) + "}"


RUNTIME = Runtime()


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(letters, values, max_size=20))
def test_any_nested_value_arrives_and_what_follows_it_is_intact(attributes: dict[str, Any]) -> None:
    runtime = RUNTIME
    runtime.load(SHOW)
    runtime.apply([Reset(), JobAdded("first", 1, 0, 1, attributes=attributes), JobAdded("second", 1, 0, 2)])
    answer = runtime.ask(QUESTION)
    assert answer.error is None, answer.error
    assert answer.actions[0]["reason"] == "second"
    expected = show(attributes)
    if len(expected) < 64 * 500:
        assert "".join(text for _, text in answer.logs) == expected
