"""A plain trace of one decision: each line that ran, what it called, which variables changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headgate.policy.debugging.session import Session, SessionEnded, verdict
from headgate.policy.debugging.subject import Subject
from headgate.policy.deltas import Answer, Failure
from headgate.policy.runtime import platform_source

_LIMIT_S = 60.0


class Step(msgspec.Struct):
    """One line that ran. `changed` are the variables that differ when the same function goes on; `calls` is what the
    line asked of the library.
    """

    depth: int
    source: str
    line: int
    text: str
    function: str
    rule: str = ""
    calls: list[str] = []
    changed: dict[str, str] = {}
    arguments: dict[str, str] = {}
    """With the first line of a function: what it was given."""


class Trace(msgspec.Struct, frozen=True):
    """What happened, what was answered, and whether that is what is recorded."""

    policy: str
    steps: list[Step]
    actions: list[dict[str, Any]]
    stopped: str
    verdict: str
    same: bool | None
    failure: str = ""
    traceback: str = ""
    left_out: int = 0
    logs: list[tuple[str, str]] = []


def trace(subject: Subject, limit_s: float = _LIMIT_S) -> Trace:
    """Make the decision once more and write down how."""
    rows: list[list[Any]] = []
    with Session(subject, "tracing") as session:
        session.ask()
        try:
            for _, report in session.until_answer(limit_s):
                rows += report
            answer = session.answer or Answer([])
        except SessionEnded as ended:
            answer = Answer([], error=Failure("timeout", f"it did not end: {ended}"), stopped="error")
    left_out = next((int(row[5]) for row in rows if row[0] == "cut"), 0)
    same = None if subject.recorded is None else answer.actions == subject.recorded
    error = answer.error
    return Trace(
        subject.name,
        _steps(rows, subject),
        answer.actions,
        answer.stopped,
        verdict(subject, answer),
        same,
        "" if error is None else error.message,
        "" if error is None else error.traceback,
        left_out,
        answer.logs,
    )


def _steps(rows: list[list[Any]], subject: Subject) -> list[Step]:
    """Rows in the order of the hooks as steps: a change belongs to the line before it in the same function."""
    lines = {"policy": subject.lua.split("\n"), "platform": platform_source().split("\n")}
    rules = {name: place.lua for name, place in subject.rules().items()}
    found = _Assembling(lines, rules)
    for row in rows:
        found.add(*row)
    return found.steps


class _Assembling:
    def __init__(self, lines: dict[str, list[str]], rules: dict[str, tuple[int, int]]) -> None:
        self.steps: list[Step] = []
        self._lines, self._rules = lines, rules
        self._latest: dict[int, Step] = {}
        self._given: dict[str, str] = {}
        self._called = ""

    def add(self, kind: str, depth: int, chunk: str, line: int, name: str, text: str) -> None:
        called, self._called = self._called, ""
        if kind == "line":
            self._line(depth, chunk, line, name)
        elif kind == "set" and line == 0:
            self._given[name] = text
        elif kind == "set" and depth in self._latest:
            self._latest[depth].changed[name] = text
        elif kind == "call" and depth in self._latest:
            self._called = name
            if name != called:  # a tail call inside the library goes by the name of its caller
                self._latest[depth].calls.append(f"{name}({text})")

    def _line(self, depth: int, chunk: str, line: int, name: str) -> None:
        given, self._given = self._given, {}
        last = self._latest.get(depth)
        returned = last is not None and (last.source, last.line) == (chunk, line) and not last.changed and not given
        if returned:  # a call made by this line has come back
            return
        shown = self._lines[chunk][line - 1].strip() if line <= len(self._lines[chunk]) else ""
        rule = next((r for r, (a, b) in self._rules.items() if chunk == "policy" and a <= line <= b), "")
        step = Step(
            depth, chunk, line, shown, f'rule "{rule}"' if name == "ask" and rule else name, rule, [], {}, given
        )
        self._latest[depth] = step
        self._latest.pop(depth + 1, None)
        self.steps.append(step)


def readable(trace: Trace) -> Iterator[str]:
    """The trace as text."""
    width = max((len(f"{step.source}:{step.line}") for step in trace.steps), default=0)
    for step in trace.steps:
        margin = " " * (width + 2 + 2 * step.depth)
        if step.arguments:
            told = ", ".join(f"{name} = {value}" for name, value in step.arguments.items())
            yield f"{margin[:-2]}> {step.function}: {told}"
        yield f"{f'{step.source}:{step.line}':<{width}}  {'  ' * step.depth}{step.text}"
        yield from (f"{margin}  calls {call}" for call in step.calls)
        yield from (f"{margin}  {name} = {value}" for name, value in step.changed.items())
    if trace.left_out:
        yield f"... {trace.left_out:,} more rows are left out"
    yield from (f"log {level}: {text}" for level, text in trace.logs)
    yield from (f"answer: {action}" for action in trace.actions)
    yield trace.verdict
    if trace.traceback:
        yield trace.traceback
