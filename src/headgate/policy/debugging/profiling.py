"""Where a policy spends its time: per function and, for YAML, per rule.

Measured by LuaJIT's sampling profiler (`jit.profile`) while the same decision is made many times in a row, compiled as
it is live. A sample is a look at the stack on a timer of processor time; shares are shares of samples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import msgspec

from headgate.core.errors import InvalidInput
from headgate.policy.debugging.session import Session
from headgate.policy.debugging.subject import Subject
from headgate.policy.errors import InvalidPolicy

_LIMIT_S = 120.0
_WANTED_US = 2_000_000
_MOST = 200_000
_WARM_UP = 50
_AROUND, _NO_RULE = "(Headgate, around the policy)", "(no rule)"
_FRAME = re.compile(r"(.*)\x01(policy|platform):(\d+)")


class Row(msgspec.Struct, frozen=True):
    """One function or rule: shares of all samples by itself, in helpers it called, and with all that it called."""

    name: str
    own: float
    helpers: float
    total: float


class Profile(msgspec.Struct, frozen=True):
    """The time of a decision and how it divides."""

    policy: str
    decisions: int
    us_per_decision: float
    samples: int
    functions: list[Row]
    rules: list[Row]
    method: str = "LuaJIT sampling profiler (jit.profile), by processor time; the decision repeated, compiled as live"


def profile(subject: Subject, decisions: int | None = None, limit_s: float = _LIMIT_S) -> Profile:
    """Make the decision many times; without a number as often as two seconds allow."""
    if decisions is not None and decisions < 1:
        raise InvalidInput("must be at least 1", field="decisions")
    asked, took, stacks = 0, 0.0, Counter[str]()
    with Session(subject, "profiling") as session:
        while asked < (decisions or _MOST) and (decisions is not None or took < _WANTED_US):
            batch = _WARM_UP if not asked else int((_WANTED_US - took) / max(1.0, took / asked)) + 1
            left = (decisions or _MOST) - asked
            more, spent, seen = _measure(session, min(left, left if decisions else batch), limit_s)
            asked, took = asked + more, took + spent
            stacks += seen
    places = {name: place.lua for name, place in subject.rules().items()}
    functions, rules = _divide(stacks, places)
    return Profile(subject.name, asked, took / asked, sum(stacks.values()), functions, rules if places else [])


def _measure(session: Session, times: int, limit_s: float) -> tuple[int, float, Counter[str]]:
    stacks: Counter[str] = Counter()
    asked, took = 0, 0.0
    session.ask(times)
    for _, (count, spent, rows) in session.until_answer(limit_s):
        asked, took = count, spent
        stacks.update(dict(rows))
    answer = session.answer
    if answer is not None and answer.error is not None:
        raise InvalidPolicy(f"the policy fails here: {answer.error.message}", field="policy")
    return asked, took, stacks


def _divide(stacks: Counter[str], rules: Mapping[str, tuple[int, int]]) -> tuple[list[Row], list[Row]]:
    functions, by_rule = _Shares(), _Shares()
    for stack, samples in stacks.items():
        frames = stack.rstrip("\x02").split("\x02")
        seen = [(at, found) for at, frame in enumerate(frames) if (found := _FRAME.fullmatch(frame))]
        inside = bool(seen) and seen[0][0] > 0
        names = [_name(found) for _, found in seen]
        functions.add(names or [_AROUND], samples, helpers=inside)
        hit = [rule for _, found in seen if (rule := _rule(found, rules))]
        by_rule.add(hit or [_NO_RULE if seen else _AROUND], samples, helpers=inside)
    return functions.rows(), by_rule.rows()


def _name(frame: re.Match[str]) -> str:
    name, chunk = frame[1], frame[2]
    if name == "chunk":
        return "main chunk"
    if name.startswith(("policy:", "platform:")):
        return f"function at {name}"
    return name if chunk == "policy" else f"platform: {name}"


def _rule(frame: re.Match[str], rules: Mapping[str, tuple[int, int]]) -> str:
    if frame[2] == "platform":
        return ""
    line = int(frame[3])
    return next((name for name, (first, last) in rules.items() if first <= line <= last), "")


class _Shares:
    def __init__(self) -> None:
        self._own: Counter[str] = Counter()
        self._helpers: Counter[str] = Counter()
        self._total: Counter[str] = Counter()

    def add(self, names: list[str], samples: int, *, helpers: bool) -> None:
        (self._helpers if helpers else self._own)[names[0]] += samples
        for name in set(names):
            self._total[name] += samples

    def rows(self) -> list[Row]:
        every = max(1, self._own.total() + self._helpers.total())
        order = sorted(self._total, key=lambda name: (-self._total[name], name))
        return [Row(n, self._own[n] / every, self._helpers[n] / every, self._total[n] / every) for n in order]
