"""What a version that only watches would have done, against what was decided: read from the recorded decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from headgate.policy.decisions import glance
from headgate.policy.library import Pointer

RECENT = 20


class Parting(msgspec.Struct, frozen=True):
    """A decision in which the two differ."""

    decision: str
    at: int
    decided_by: str
    actions: list[dict[str, Any]]
    shadow_actions: list[dict[str, Any]]
    failure: str = ""
    """Why the shadow had no answer, where it had none."""


class ShadowReport(msgspec.Struct):
    """How a version did that only watched. Times are microseconds a decision, on average."""

    version: str
    since: int
    until: int = 0
    asked: int = 0
    agreed: int = 0
    failures: dict[str, int] = {}
    decided_us: float = 0.0
    shadow_us: float = 0.0
    slowest_us: int = 0
    first: Parting | None = None
    recent: list[Parting] = []

    @property
    def rate(self) -> float | None:
        """The share of decisions in which it agreed; none before the first."""
        return self.agreed / self.asked if self.asked else None


def report(bodies: Iterable[bytes], version: str, since: int, recent: int = RECENT) -> ShadowReport:
    """Go through recorded decisions, oldest first; those that the version did not watch say nothing of it."""
    found = ShadowReport(version, since)
    last: deque[Parting] = deque(maxlen=max(1, recent))
    decided = watched = 0
    for body in bodies:
        decision = glance(body)
        said = decision.shadow
        if said is None or said.version != version:
            continue
        found.asked += 1
        found.until = decision.at
        decided += decision.took_us
        watched += said.took_us
        found.slowest_us = max(found.slowest_us, said.took_us)
        if said.agrees:
            found.agreed += 1
            continue
        if said.failure:
            found.failures[said.failure] = found.failures.get(said.failure, 0) + 1
        who = decision.version if decision.decided_by != "platform" else "platform"
        parting = Parting(decision.id, decision.at, who, decision.actions, said.actions, said.failure)
        found.first = found.first or parting
        last.append(parting)
    if found.asked:
        found.decided_us, found.shadow_us = decided / found.asked, watched / found.asked
    found.recent = list(reversed(last))
    return found


def watched_since(pointer: Pointer, version: str) -> int:
    """When a version last began to watch."""
    begin, before = 0, None
    for move in pointer.moves:
        if move.shadow == version and before != version:
            begin = move.at
        before = move.shadow
    return begin


def last_shadow(pointer: Pointer) -> str | None:
    """The version that watches, or did last."""
    return pointer.shadow or next((move.shadow for move in reversed(pointer.moves) if move.shadow is not None), None)


def alike(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether two answers do the same, whatever reasons they give."""
    return _bare(one) == _bare(other)


def _bare(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in action.items() if name != "reason"} for action in actions]
