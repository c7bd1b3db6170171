"""Regular expressions and their Lua patterns find the same texts."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lupa import luajit21

from headgate.policy.rules.patterns import MAX_QUANTIFIED, PatternError, to_lua_patterns


@cache
def _find() -> Any:
    return luajit21.LuaRuntime(encoding=None).eval(b"function(s, p) return string.find(s, p) ~= nil end")


def found(pattern: str, text: str) -> bool:
    return any(_find()(text.encode(), lua.encode()) for lua in to_lua_patterns(pattern))


def expected(pattern: str, text: str) -> bool:
    # Python's $ also matches before a final line break, Lua's does not
    return re.search(re.sub(r"(?<!\\)\$", r"\\Z", pattern), text, re.ASCII | re.DOTALL) is not None


ATOMS = st.sampled_from(
    ["a", "b", "-", "%", "\\.", "\\-", ".", "[ab]", "[^a]", "[a-c0-9]", "[%^-]", "[+-/]", "\\d", "\\w", "\\s", "\\D", "\\W", "[\\w-]", "_", " "]  # noqa: E501
)  # fmt: skip
SIGNS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{1,2}?"])
SEQUENCES = st.lists(st.tuples(ATOMS, SIGNS).map("".join), max_size=4).map("".join)
BRANCHES = st.lists(SEQUENCES, min_size=1, max_size=3).map("|".join)
EXPRESSIONS = st.tuples(st.sampled_from(["", "^"]), SEQUENCES, BRANCHES, SEQUENCES, st.sampled_from(["", "$"])).map(
    lambda parts: f"{parts[0]}{parts[1]}({parts[2]}){parts[3]}{parts[4]}"
)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS, st.text(alphabet="abc-%.^_ 09+,", max_size=8))
def test_the_translation_finds_what_the_expression_finds(pattern: str, text: str) -> None:
    assert found(pattern, text) == expected(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "holds"),
    [
        ("^llama-(7|13)b$", "llama-13b", True),
        ("^llama-(7|13)b$", "llama-130b", False),
        ("größe", "die größe", True),
        ("^(a|b(c|d))e", "bde", True),
        ("[]x]", "]", True),
        ("\\$5\\^", "$5^", True),
        ("", "anything", True),
        ("(?:v1|v2)", "model-v2", True),
        ("\\(x\\)", "(x)", True),
    ],
)
def test_known_cases(pattern: str, text: str, holds: bool) -> None:
    assert found(pattern, text) is holds


@pytest.mark.parametrize(
    "pattern",
    [
        "(ab)+", "(", ")", "a)", "[a", "*", "a**", "a{2", "a{3,1}", "a{,2}", "a{999}", "\\b", "\\1", "(?i)a", "(?=a)",
        "a^b", "a$b", "^*", "é+", "[é]", "[\\→]", "[z-a]", "[\\d-z]", "\\", "a\0", "(a|b)" * 6, "x" * 501,
        "a*" * (MAX_QUANTIFIED + 1), "[\\W]", "(" * 200,
    ],
)  # fmt: skip
def test_what_cannot_be_translated_is_refused_with_a_place(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        to_lua_patterns(pattern)
    assert 0 <= caught.value.offset <= len(pattern)
    assert caught.value.message


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab\\[](){}|*+?^$.-,0123é\n", max_size=12))
def test_any_pattern_translates_to_one_that_lua_accepts_or_is_refused(pattern: str) -> None:
    try:
        patterns = to_lua_patterns(pattern)
    except PatternError:
        return
    for lua in patterns:
        _find()(b"aab(0-1)^$", lua.encode())


def test_the_longest_allowed_repetition_does_not_exhaust_lua() -> None:
    assert not found("a*" * MAX_QUANTIFIED + "b", "c" * 1000)
