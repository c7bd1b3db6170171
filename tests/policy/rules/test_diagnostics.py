"""What is wrong, where exactly, and what was meant."""

from __future__ import annotations

import pytest

from headgate.policy.rules import PolicySourceError, compile_source, parse
from headgate.policy.rules.diagnostics import MAX_DIAGNOSTICS

HEAD = "scheduler:\n  name: p\n  rules:\n"


def rule(condition: str = "always", action: str = "{use: platform-scheduler}", more: str = "") -> str:
    return f"{HEAD}    - name: r\n      condition: {condition}\n      action: {action}\n{more}"


# code, suggestion, source; the sign § stands before the place that is to be named
CASES = [
    ("unknown-operator", "exists", rule("{job.seed: {§exist: true}}")),
    ("unknown-operator", "starts_with", rule("{job.name: {§startswith: a}}")),
    ("unknown-field", "job.priority", rule("{§job.prority: batch}")),
    ("unknown-field", "worker.vram_free", rule("{§worker.vram_fre: 1}")),
    ("unknown-field", "all", rule("{§al: [always]}")),
    ("unknown-field", None, rule("{§gt: 5}")),
    ("unknown-field", "job.seed", rule("{all: [always, {not: {§job.sead: 1}}]}")),
    ("unknown-action", "dispatch", rule(action="{§dispach: {}}")),
    ("unknown-value", "least-loaded", rule(action="{dispatch: {worker_selection: §least_loaded}}")),
    ("unknown-value", "required", rule(action="{dispatch: {model_match: §requird}}")),
    ("unknown-value", "platform-scheduler", rule(action="{use: §platform-schedular}")),
    ("unknown-value", "background", rule(action="{preempt: {classes: [low, §backgruond]}}")),
    ("unknown-value", "lru", rule(action="{evict: {select: §lruu}}")),
    ("unknown-key", "worker_selection", rule(action="{dispatch: {§worker_select: first}}")),
    ("unknown-key", "priority", rule(more="      §prioritty: 5\n")),
    ("unknown-key", "version", "scheduler:\n  name: p\n  rules: []\n  §verison: 1\n"),
    ("unknown-key", "scheduler", "§schedular:\n  name: p\n"),
    ("wrong-type", None, rule(more="      priority: §high\n")),
    ("wrong-type", None, rule(more="      enabled: §1\n")),
    ("wrong-type", None, rule(more="      description: §[a]\n")),
    ("wrong-type", "always", rule("§alway")),
    ("wrong-type", None, rule("{job.units: §many}")),
    ("wrong-type", None, rule("{job.tenant: §42}")),
    ("wrong-type", None, rule("{job.seed: {exists: §1}}")),
    ("wrong-type", "in", rule("{job.tenant: §[a, b]}")),
    ("wrong-type", "exists", rule("{job.seed: §null}")),
    ("wrong-type", None, rule(action="{wait: {duration_ms: §-1}}")),
    ("wrong-type", "wait", rule(action="§wait")),
    ("wrong-type", None, "scheduler: {name: p, rules: §5}"),
    ("wrong-type", None, "§- a\n"),
    ("wrong-operator", None, rule("{job.units: {§matches: a}}")),
    ("bad-range", None, rule("{job.units: {between: §[1]}}")),
    ("bad-range", None, rule("{job.units: {between: §[5, 1]}}")),
    ("bad-range", None, rule("{job.estimated_vram: {between: §[2GB, 1GB]}}")),
    ("bad-pattern", None, rule("{job.name: {matches: §'(ab)+'}}")),
    ("bad-pattern", None, rule("{job.name: {matches: §'[a'}}")),
    ("bad-number", None, rule("{job.units: §.inf}")),
    ("bad-number", None, rule("{job.units: §9007199254740993}")),
    ("empty-list", None, rule("{job.units: {in: §[]}}")),
    ("empty-condition", None, rule("§{}")),
    ("several-actions", None, rule(action="§{wait: {}, use: platform-scheduler}")),
    ("missing-key", None, f"{HEAD}    - §name: r\n      condition: always\n"),
    ("missing-key", None, rule(action="{evict: §{}}")),
    ("empty-name", None, f"{HEAD}    - name: §''\n      condition: always\n      action: {{wait: {{}}}}\n"),
    ("empty-name", None, "scheduler: {name: §'  ', rules: []}"),
    ("bad-name", None, 'scheduler: {name: §"a\\nb", rules: []}'),
    (
        "duplicate-rule",
        None,
        rule(more="    - name: §r\n      condition: always\n      action: {wait: {}}\n"),
    ),
    ("duplicate-key", None, rule(more="      §action: {wait: {}}\n")),
    ("bad-version", None, "scheduler:\n  version: §one\n  name: p\n  rules: []\n"),
    ("alias-refused", None, rule("§*x")),
    ("anchor-refused", None, rule("§&x always")),
    ("tag-refused", None, rule("§!!python/name:os always")),
    ("bad-text", None, 'scheduler: {name: §"\\ud800", rules: []}'),
    ("complex-key", None, "§[a]: b\n"),
    ("several-documents", None, "a: b\n§---\nc: d\n"),
    ("empty-document", None, "§# nothing\n"),
    ("directive-refused", None, "§%YAML 1.1\n---\na: b\n"),
    ("yaml-syntax", None, "scheduler:\n§\tname: p\n"),
    ("yaml-syntax", None, "scheduler: §\x07\n"),
    ("bad-lua", None, rule(action="\n        lua: |\n          local x\n§          x = = 1\n")),
    ("bad-lua", None, rule(action="{lua: §'end, function()'}")),
    ("bad-lua", None, rule(action='{lua: {script: §"\\x1bLJ"}}')),
]


@pytest.mark.parametrize(("code", "suggestion", "marked"), CASES)
def test_a_mistake_is_named_at_its_place(code: str, suggestion: str | None, marked: str) -> None:
    before = marked[: marked.index("§")]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    policy, diagnostics = parse(marked.replace("§", ""))
    found = [(note.code, note.line, note.column, note.suggestion) for note in diagnostics]
    assert (code, line, column, suggestion) in found
    assert policy is None


def test_carriage_returns_and_a_byte_order_mark_move_nothing() -> None:
    source = rule("{job.sed: 1}")
    plain = parse(source)[1]
    assert parse(source.replace("\n", "\r\n"))[1] == plain
    assert parse("\ufeff" + source)[1] == plain
    assert parse(source.encode())[1] == plain


def test_columns_count_characters_not_bytes() -> None:
    source = "scheduler: {name: 'größe', rules: 5}"
    note = parse(source)[1][0]
    assert (note.code, note.line, note.column) == ("wrong-type", 1, source.index("5") + 1)


def test_a_rule_behind_a_catch_all_is_warned_of_and_still_compiles() -> None:
    more = "    - name: late\n      condition: always\n      action: {dispatch: {}}\n"
    policy, diagnostics = parse(rule(more=more))
    assert policy is not None
    assert [(note.code, note.severity, note.line) for note in diagnostics] == [("unreachable-rule", "warning", 7)]
    assert compile_source(rule(more=more)).warnings == tuple(diagnostics)
    disabled = more + "      enabled: false\n"
    assert parse(rule(more=disabled))[1] == []
    assert parse(rule(more=more + "      priority: 1\n"))[1] == []


def test_a_value_that_can_never_occur_is_warned_of() -> None:
    policy, diagnostics = parse(rule("{job.class: interactive}"))
    assert policy is not None
    assert [(note.code, note.severity) for note in diagnostics] == [("unknown-value", "warning")]


def test_compiling_a_broken_source_raises_with_all_diagnostics() -> None:
    with pytest.raises(PolicySourceError) as caught:
        compile_source(rule("{job.sed: 1}", "{dispach: {}}"))
    assert [note.code for note in caught.value.diagnostics] == ["unknown-field", "unknown-action"]
    assert "did you mean 'job.seed'?" in str(caught.value)
    assert caught.value.diagnostics[0].path == "scheduler.rules[0].condition"


def test_diagnostics_are_limited_in_number() -> None:
    rules = "".join(f"    - name: r{n}\n      condition: x\n      action: y\n" for n in range(200))
    assert len(parse(HEAD + rules)[1]) == MAX_DIAGNOSTICS
