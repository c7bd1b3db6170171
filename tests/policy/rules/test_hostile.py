"""No input makes the parser raise, hang or expand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.policy.rules import Limits, compile_source, parse
from headgate.policy.rules.vocabulary import ACTIONS, FIELDS, GROUPINGS, OPERATORS

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))


def test_an_alias_bomb_is_refused_at_its_first_anchor_before_anything_expands() -> None:
    policy, diagnostics = parse(BOMB)
    assert policy is None
    assert [(note.code, note.line, note.column) for note in diagnostics] == [("anchor-refused", 1, 5)]


def test_ten_megabytes_are_refused_by_their_size_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def scanned(*_: object) -> None:
        raise AssertionError("the source was scanned")

    monkeypatch.setattr("headgate.policy.rules.document.compose", scanned)
    for source in ("x" * 10_000_000, b"x" * 10_000_000, "é" * 600_000):
        assert [note.code for note in parse(source)[1]] == ["too-large"]


def test_limits_can_be_set() -> None:
    assert [note.code for note in parse("a: [b, c]", Limits(max_nodes=3))[1]] == ["too-many-nodes"]
    assert [note.code for note in parse("a: [[b]]", Limits(max_depth=2))[1]] == ["too-deep"]
    assert [note.code for note in parse("a: b", Limits(max_bytes=3))[1]] == ["too-large"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("[" * 1_000_000, "too-deep"),
        ("{a: " * 200_000, "too-deep"),
        ("- " * 400_000, "too-deep"),
        ("? " * 400_000, "too-deep"),
        ("- a\n" * 100_000, "too-many-nodes"),
        ("x" * 1_000_000, "wrong-type"),
        (b"scheduler: \xff\xfe", "not-utf8"),
        ('"\\U99999999"', "yaml-syntax"),
        ("%YAML 1.99999999999999999999\n---\na", "yaml-syntax"),
        ("scheduler: {name: p, rules: [], " + "k" * 500_000 + ": 1}", "yaml-syntax"),
        ("scheduler: {name: p, version: " + "9" * 100_000 + ", rules: []}", "bad-version"),
    ],
)
def test_a_flood_is_refused_early(source: str | bytes, code: str) -> None:
    policy, diagnostics = parse(source)
    assert policy is None
    assert code in [note.code for note in diagnostics]


def test_an_absurd_number_is_a_diagnostic() -> None:
    for number in ("1e400", "-1e400", "9" * 390, "9" * 5000, ".nan", "0x" + "f" * 300):
        condition = f"{{job.units: {number}}}"
        source = f"scheduler: {{name: p, rules: [{{name: r, condition: {condition}, action: {{wait: }}}}]}}"
        policy, diagnostics = parse(source)
        assert policy is None
        assert diagnostics


@settings(max_examples=300, deadline=None)
@given(st.text())
@example("a: >-\n  b\n c")
@example("? - a")
@example("!<tag:x> a")
@example('"\\x')
@example("%TAG ! x\n---\n")
def test_any_text_gives_a_policy_or_diagnostics(text: str) -> None:
    policy, diagnostics = parse(text)
    assert policy is not None or any(note.severity == "error" for note in diagnostics)
    assert all(note.line >= 1 and note.column >= 1 for note in diagnostics)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab:- \n\t[]{}&*!|>'\"%#?,@`\\x0", max_size=60))
def test_any_heap_of_signs_gives_a_policy_or_diagnostics(text: str) -> None:
    policy, diagnostics = parse(text)
    assert policy is not None or diagnostics


WORDS = st.sampled_from(
    [
        "scheduler", "name", "rules", "condition", "action", "always", "priority", "enabled", "version",
        "worker_selection", "first", "classes", "low", "script", "return nil", "8GB", "^a|b$", "[",
        *FIELDS, *OPERATORS, *ACTIONS, *GROUPINGS,
    ]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(TREES, TREES)
def test_any_structure_in_a_rule_gives_a_policy_that_compiles_or_diagnostics(condition: Any, action: Any) -> None:
    rule = {"name": "r", "condition": condition, "action": action}
    source = json.dumps({"scheduler": {"name": "p", "rules": [rule]}}, allow_nan=True)
    policy, diagnostics = parse(source)
    if policy is None:
        assert diagnostics
    else:
        assert compile_source(source).lua


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_any_structure_as_a_document_gives_a_policy_or_diagnostics(tree: Any) -> None:
    policy, diagnostics = parse(json.dumps(tree))
    assert policy is not None or diagnostics
