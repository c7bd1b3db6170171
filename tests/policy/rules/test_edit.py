"""Edits change the rule they name and nothing else."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.policy.rules import (
    RuleEditError,
    add_rule,
    change_rule,
    disable_rule,
    enable_rule,
    move_rule,
    parse,
    remove_rule,
    rename_rule,
)
from headgate.policy.rules.model import Always, Dispatch, Rule

DOCUMENT = """\
# The policy of the lab.
scheduler:
  name: "lab"   # quoted on purpose
  custom_key: kept            # unknown to the schema
  rules:
    # Seeds first.
    - name: 'seeded'   # the important one
      condition:
        # any seed will do
        job.seed: { exists: true }   # flow
      action:
        dispatch:
          worker_selection: "least-loaded"
          model_match:   required
      priority: 100

    - name: raw
      condition: always
      action:
        lua: |
          -- a comment of the Lua
          local x = 1

          return nil
      # belongs to raw

    # A section of its own.

    # Batch last.
    - { name: batch, condition: { job.priority: "batch" }, action: { dispatch: { worker_selection: first } } }
    -   name: fallback
        condition: always
        action: {use: platform-scheduler}
# the end
"""
NAMES = ["seeded", "raw", "batch", "fallback"]
NEW = {"name": "new", "condition": {"job.units": {"gt": 4}}, "action": {"wait": {"duration_ms": 5}}}


def rule_names(source: str) -> list[str]:
    lines = [line.split("name:")[1] for line in source.splitlines() if "name:" in line]
    return [line.split(",")[0].split("#")[0].strip(" '\"") for line in lines][1:]


def test_the_document_of_these_tests_is_sound_but_for_its_unknown_key() -> None:
    assert [note.code for note in parse(DOCUMENT)[1]] == ["unknown-key"]
    assert rule_names(DOCUMENT) == NAMES


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines taken out and lines put in, where the rest keeps its order."""
    diff = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return [line[2:] for line in diff if line[0] == "-"], [line[2:] for line in diff if line[0] == "+"]


def test_changing_a_value_touches_its_line_and_keeps_quotes_and_comments() -> None:
    edited = change_rule(DOCUMENT, "seeded", priority=90)
    assert changed_lines(DOCUMENT, edited) == (["      priority: 100"], ["      priority: 90"])
    edited = rename_rule(DOCUMENT, "seeded", "with-seed")
    assert changed_lines(DOCUMENT, edited) == (
        ["    - name: 'seeded'   # the important one"],
        ["    - name: 'with-seed'   # the important one"],
    )
    action = {"dispatch": {"worker_selection": "best-fit", "model_match": "required"}}
    edited = change_rule(DOCUMENT, "seeded", action=action)
    assert changed_lines(DOCUMENT, edited) == (
        ['          worker_selection: "least-loaded"'],
        ['          worker_selection: "best-fit"'],
    )


def test_a_new_field_goes_below_the_name_or_to_the_end_of_the_rule() -> None:
    assert changed_lines(DOCUMENT, disable_rule(DOCUMENT, "seeded")) == ([], ["      enabled: false"])
    assert changed_lines(DOCUMENT, disable_rule(DOCUMENT, "fallback")) == ([], ["        enabled: false"])
    edited = change_rule(DOCUMENT, "raw", priority=3)
    assert "          return nil\n      priority: 3\n      # belongs to raw\n" in edited
    flow = change_rule(DOCUMENT, "batch", priority=3)
    assert "first } }, priority: 3 }" in flow


def test_a_condition_can_change_its_shape() -> None:
    condition = {"all": [{"job.units": 1}, {"any": [{"job.tenant": "a"}, "always"]}]}
    for name in NAMES:
        edited = change_rule(DOCUMENT, name, condition=condition)
        assert "# any seed will do" in edited or name == "seeded"
        back = change_rule(edited, name, condition="always")
        assert rule_names(back) == NAMES


def test_raw_lua_changes_as_a_block() -> None:
    edited = change_rule(DOCUMENT, "raw", action={"lua": "local y = 2\n\nreturn y\n"})
    removed, added = changed_lines(DOCUMENT, edited)
    assert "          return y" in added
    assert removed == ["          -- a comment of the Lua", "          local x = 1", "          return nil"]
    assert "      # belongs to raw" in edited


def test_moving_takes_the_comments_along_and_leaves_sections_in_place() -> None:
    edited = move_rule(DOCUMENT, "seeded", 3)
    assert rule_names(edited) == ["raw", "batch", "fallback", "seeded"]
    assert edited.index("# Seeds first.") > edited.index("fallback")
    assert sorted(edited.splitlines()) == sorted(DOCUMENT.splitlines())
    assert move_rule(edited, "seeded", 0) == DOCUMENT


@pytest.mark.parametrize("name", NAMES)
def test_moving_keeps_the_lines_of_the_others_in_order(name: str) -> None:
    for index in range(4):
        edited = move_rule(DOCUMENT, name, index)
        expected = [other for other in NAMES if other != name]
        expected.insert(index, name)
        assert rule_names(edited) == expected
        assert remove_rule(edited, name).split() == remove_rule(DOCUMENT, name).split()


def test_removing_takes_the_rule_and_its_own_comments() -> None:
    edited = remove_rule(DOCUMENT, "seeded")
    removed, added = changed_lines(DOCUMENT, edited)
    assert added == []
    assert removed[0] == "    # Seeds first."
    assert len(removed) == 11
    edited = remove_rule(DOCUMENT, "raw")
    assert "# A section of its own." in edited
    assert "belongs to raw" not in edited
    assert "# the end" in remove_rule(DOCUMENT, "fallback")


def test_adding_inserts_lines_only() -> None:
    for index in range(5):
        edited = add_rule(DOCUMENT, index, NEW)
        assert rule_names(edited) == [*NAMES[:index], "new", *NAMES[index:]]
        removed, added = changed_lines(DOCUMENT, edited)
        assert removed == []
        assert "    - name: new" in added
    typed = add_rule(DOCUMENT, 0, Rule("typed", Always(), Dispatch("first")))
    assert "worker_selection: first" in typed


def test_rules_can_come_from_nothing_and_go_to_nothing() -> None:
    for empty in (
        "scheduler:\n  name: p\n  rules: []  # none yet\n",
        "scheduler:\n  name: p\n  rules:\n",
        "scheduler:\n  rules:\n  name: p\n",
        "scheduler:\n  name: p\n  rules:",
        "scheduler: {name: p, rules: []}",
        "scheduler: {name: p, rules: [ ]}\n",
    ):
        edited = add_rule(empty, 0, NEW)
        policy, diagnostics = parse(edited)
        assert policy is not None, (edited, diagnostics)
        assert [rule.name for rule in policy.rules] == ["new"]
        emptied, _ = parse(remove_rule(edited, "new"))
        assert emptied is not None
        assert emptied.rules == ()


def test_flow_documents_are_edited_in_place() -> None:
    rules = "{name: a, condition: always, action: {wait: {}}}, {name: b, condition: always, action: {wait: {}}}"
    source = f"scheduler: {{name: p, rules: [{rules}]}}\n"
    assert move_rule(move_rule(source, "b", 0), "b", 1) == source
    assert enable_rule(disable_rule(source, "a"), "a") == source
    without, _ = parse(remove_rule(source, "a"))
    assert without is not None
    assert [rule.name for rule in without.rules] == ["b"]
    edited = add_rule(source, 2, NEW)
    policy, _ = parse(edited)
    assert policy is not None
    assert [rule.name for rule in policy.rules] == ["a", "b", "new"]


EDITS: list[Callable[[str, str], str]] = [
    lambda source, name: change_rule(source, name, name=name),
    enable_rule,
    lambda source, name: enable_rule(disable_rule(source, name), name),
    lambda source, name: rename_rule(rename_rule(source, name, "other"), "other", name),
    lambda source, name: move_rule(source, name, NAMES.index(name)),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("ending", ["", "keep"])
def test_an_edit_that_changes_nothing_returns_the_same_bytes(name: str, newline: str, ending: str) -> None:
    source = ("\ufeff" + DOCUMENT).replace("\n", newline)
    source = source if ending else source.removesuffix(f"# the end{newline}").removesuffix(newline)
    for edit in EDITS:
        assert edit(source, name) == source
    once = disable_rule(source, name)
    assert disable_rule(once, name) == once != source


def test_line_breaks_stay_what_they_are() -> None:
    source = DOCUMENT.replace("\n", "\r\n")
    for edited in (
        add_rule(source, 2, NEW),
        change_rule(source, "raw", action={"lua": "a()\nb()\n"}),
        remove_rule(source, "raw"),
        disable_rule(source, "seeded"),
    ):
        assert edited.replace("\r\n", "").count("\n") == 0


def test_impossible_edits_are_refused_with_a_reason() -> None:
    cases: list[tuple[str, Callable[[], str]]] = [
        ("unknown-rule", lambda: move_rule(DOCUMENT, "seded", 0)),
        ("bad-index", lambda: move_rule(DOCUMENT, "seeded", 4)),
        ("bad-index", lambda: add_rule(DOCUMENT, -1, NEW)),
        ("duplicate-rule", lambda: rename_rule(DOCUMENT, "raw", "batch")),
        ("duplicate-rule", lambda: add_rule(DOCUMENT, 0, {**NEW, "name": "raw"})),
        ("empty-name", lambda: rename_rule(DOCUMENT, "raw", " ")),
        ("yaml-syntax", lambda: remove_rule("a: [", "x")),
        ("alias-refused", lambda: remove_rule("a: *x", "x")),
        ("wrong-type", lambda: remove_rule("scheduler: {rules: 5}", "x")),
        ("wrong-type", lambda: remove_rule("scheduler: {rules: [5]}", "x")),
        ("wrong-type", lambda: remove_rule("- a", "x")),
    ]
    for code, edit in cases:
        with pytest.raises(RuleEditError) as caught:
            edit()
        assert caught.value.diagnostics[0].code == code
    with pytest.raises(RuleEditError) as caught:
        remove_rule(DOCUMENT, "seded")
    assert caught.value.diagnostics[0].suggestion == "seeded"


VALUES = st.one_of(st.text(max_size=12), st.text(alphabet="a \n\t#:'\"-", max_size=12), st.integers(), st.booleans())
CONDITIONS: st.SearchStrategy[Any] = st.recursive(
    st.just("always") | st.dictionaries(st.sampled_from(["job.name", "job.labels.a b", "job.x: y"]), VALUES, min_size=1, max_size=2),  # noqa: E501
    lambda inner: st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), CONDITIONS, st.text(max_size=30), st.sampled_from(["\n", "\r\n"]))
def test_any_change_is_kept_and_touches_no_other_rule(name: str, condition: Any, lua: str, newline: str) -> None:
    source = DOCUMENT.replace("\n", newline)
    # the edit reads its own result and refuses to hand out anything else than what was asked for
    edited = change_rule(source, name, condition=condition, action={"lua": lua}, description=lua or None)
    for other in NAMES:
        if other != name:
            edited, source = remove_rule(edited, other), remove_rule(source, other)
    assert remove_rule(edited, name) == remove_rule(source, name)
