"""Whether what a store says can be right: a number out of all bounds is damage, and must not be built upon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from headgate.ports import Mark, StoreDamaged

_MOST_OPEN = 1 << 33
"""Jobs that can lie between the first live one and the last: beyond this no memory would hold them."""
_MOST = {"tokens": 1 << 40, "epoch": 1 << 22}
"""A token has that many bits for the number of the lease and for the epoch."""
_LARGEST = 1 << 42
"""Commit numbers leave room for the places of events within a commit."""


def check_mark(name: str, mark: Mark) -> None:
    """Raise `StoreDamaged` where a store cannot stand."""
    for field, value in mark._asdict().items():
        if not 0 <= value <= _MOST.get(field, _LARGEST):
            raise StoreDamaged(f"{name}: the store is damaged: it cannot stand at {field} {value}")
    if mark.low_water > mark.seq + 1 or mark.seq - mark.low_water > _MOST_OPEN:
        raise StoreDamaged(f"{name}: the store is damaged: low-water mark {mark.low_water}, last job {mark.seq}")
    if mark.indexed > mark.number:
        raise StoreDamaged(f"{name}: the store is damaged: indexed to {mark.indexed}, last commit {mark.number}")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """What was written by us must be readable by us: if it is not, it was damaged."""
    try:
        yield
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreDamaged(f"{what} cannot be read: {error}") from error
