"""Looking through recorded decisions: from either end, and only those that somebody is interested in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from headgate.core.errors import InvalidInput
from headgate.policy.decisions import KIND, Decision, load
from headgate.ports import Store

_PAGE = 500
MOST_READ = 20_000
"""So many decisions are looked at in one call; whoever wants more goes on from `next`."""


class DecisionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which decisions to list: a range of time, an order, a place to go on from, and what they have to be about."""

    since: float = 0.0
    until: float | None = None
    after: str | None = None
    order: Literal["oldest", "newest"] = "oldest"
    job: str | None = None
    action: str | None = None
    version: str | None = None
    failed: bool = False
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100

    def wants(self, decision: Decision) -> bool:
        """Whether a decision is one of those that are asked for."""
        named = [*decision.actions, *({"action": r.action, "job_id": r.job_id} for r in decision.refused)]
        return (
            (self.job is None or any(action.get("job_id") == self.job for action in named))
            and (self.action is None or any(action.get("action") == self.action for action in named))
            and (self.version is None or self.version in (decision.version, decision.attempted, decision.decided_by))
            and (not self.failed or bool(decision.failure))
        )


class Found(NamedTuple):
    """Decisions, and where to go on if there may be more."""

    decisions: list[Decision]
    following: str | None


def look(store: Store, asked: DecisionsQuery) -> Found:
    """Those that are wanted, in the order asked for."""
    found: list[Decision] = []
    for read, decision in enumerate(_all(store, asked), 1):
        if asked.wants(decision):
            found.append(decision)
        if len(found) == asked.limit or read == MOST_READ:
            return Found(found, decision.id)
    return Found(found, None)


def _all(store: Store, asked: DecisionsQuery) -> Iterator[Decision]:
    """All in the range, page by page. Several may have been made in one millisecond."""
    newest, place, limit = asked.order == "newest", asked.after, _PAGE
    since = _milliseconds(asked.since, "since")
    until = None if asked.until is None else _milliseconds(asked.until, "until")
    if place is not None:
        at = _time_of(store, place)
        since, until = (since, min(at + 1, until or at + 1)) if newest else (max(since, at), until)
    while True:
        rows = store.records(KIND, since, until, None, limit, newest=newest)
        fresh = [load(row.body) for row in rows]
        fresh = [each for each in fresh if place is None or (each.id < place if newest else each.id > place)]
        yield from fresh
        if len(rows) < limit:
            return
        if not fresh:
            limit *= 2
            continue
        place, limit = fresh[-1].id, _PAGE
        since, until = (since, rows[-1].at + 1) if newest else (rows[-1].at, until)


def _time_of(store: Store, decision_id: str) -> int:
    """When a decision was recorded; where it is gone, when it was asked, which its id says."""
    at = decision_id.partition("-")[0]
    if not at.isascii() or not at.isdigit() or len(at) > 15:
        raise InvalidInput("is not the id of a decision", field="after")
    row = next(iter(store.records(KIND, 0, None, decision_id, 1)), None)
    return int(at) if row is None else row.at


def _milliseconds(value: float, field: str) -> int:
    if not 0 <= value < 1e12:
        raise InvalidInput("must be seconds since 1970", field=field)
    return round(value * 1000)
