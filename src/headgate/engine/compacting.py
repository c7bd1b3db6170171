"""Retention at work: what has come of age is deleted a few rows at a time, in small commits between all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.core.retention import Retention
from headgate.ports import Compacted, Gone, OldEnd, Store

MOST = 500
"""Jobs, or rows of another kind, that one commit deletes: the others wait a few milliseconds for it."""
EVERY = 60_000
"""Milliseconds between two sweeps."""
AFRESH = 60
"""Sweeps after which one begins with the oldest job again: a live job may have kept it."""
SPARE = 0.25
"""The share of a file that stays free for new rows, rather than to be given back and asked for again."""
_FIRST = (-1, 0)
_RECORDS = {"decision": "decisions", "load": "load", "audit": "audit", "log": "logs"}
"""Kinds of records, and which age is theirs."""
Forget = Callable[[list[OldEnd]], list[OldEnd]]
"""Makes the core forget jobs; answers with those that may be deleted."""
Places = dict[str, tuple[int, int]]
"""How far the walks through the ended jobs have come: the end and the number of the last one seen."""


def sweep(
    store: Store, retention: Retention, now: int, forget: Forget, places: Places | None = None, most: int = MOST
) -> Iterator[Gone]:
    """Everything that is to go now, commit by commit. Each must be durable before the next is asked for.

    A step may be empty: it has looked at `most` rows and found that all of them stay.
    """
    places = {} if places is None else places
    for keyed in (False, True):
        age = retention.age_of(keyed=keyed)
        if age is not None:
            for page in _ends(store, now - age, most, places, f"jobs {keyed}"):
                old = [end for end in page if end.keyed == keyed]
                yield Gone(jobs=[end.seq for end in forget(old)])
    if retention.events is not None:
        for page in _ends(store, now - retention.events, most, places, "histories"):
            yield Gone(histories=[end.seq for end in page if end.history])
        while entries := store.old_entries(now - retention.events, most):
            yield Gone(journal=entries)
    for kind, field in _RECORDS.items():
        limit: int | None = getattr(retention, field)
        while limit is not None and (found := store.old_records(kind, now - limit, most)):
            yield Gone(records=[(kind, *place) for place in found])


def _ends(store: Store, before: int, most: int, places: Places, walk: str) -> Iterator[list[OldEnd]]:
    while page := store.old_ends(before, places.get(walk, _FIRST), most):
        yield page
        places[walk] = page[-1][:2]


class Compactor:
    """Sweeps now and then."""

    def __init__(self, store: Store, retention: Retention, forget: Forget) -> None:
        self._store = store
        self._retention = retention
        self._forget = forget
        self._due = 0
        self._sweeps = 0
        self._places: Places = {}
        self._steps: Iterator[Gone] | None = None
        self._deleted = False
        self._shrinking = False

    @property
    def at_work(self) -> bool:
        """Whether a sweep is under way."""
        return self._steps is not None or self._shrinking

    def step(self, now: int) -> Gone | None:
        """What to delete next; none if there is nothing to do now."""
        if self._shrinking:
            self._shrinking = self._store.shrink(SPARE)
            return None
        if self._steps is None and not self._begin(now):
            return None
        gone = next(self._steps or iter(()), None)
        if gone is None:
            self._steps, self._due = None, now + EVERY
            self._shrinking, self._deleted = self._deleted, False
            return None
        self._deleted = self._deleted or bool(gone)
        return gone

    def _begin(self, now: int) -> bool:
        if now < self._due or not self._retention.deletes:
            return False
        if self._sweeps % AFRESH == 0:
            self._places.clear()
        self._sweeps += 1
        self._steps = sweep(self._store, self._retention, now, self._forget, self._places)
        return True


def counted(total: Compacted, gone: Gone) -> Compacted:
    """The total with one more commit."""
    sizes = (len(gone.jobs), len(gone.histories), len(gone.journal), len(gone.records))
    return Compacted(*(so_far + more for so_far, more in zip(total, sizes, strict=True)))
