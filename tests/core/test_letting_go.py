"""A state that is given up is given back: after a failed commit the engine builds a new one, again and again."""

from __future__ import annotations

import gc
from collections import Counter

from headgate.core import commands as c
from headgate.core.bucket import Bucket
from headgate.core.decide import decide
from headgate.core.state import Kind, State
from headgate.testing import job


def alive() -> Counter[type]:
    gc.collect()
    return Counter(type(thing) for thing in gc.get_objects() if type(thing) in (Bucket, Kind))


def test_a_state_with_jobs_in_its_queue_leaves_nothing_behind() -> None:
    before = alive()
    state = State()
    for number in range(20):
        new = c.NewJob(f"j{number}", job("a", rank=number % 3, priority=1 + number % 5))
        decide(state, c.Submit((new,)), 1_000)
    decide(state, c.Patch("j3", rank=7), 1_000)
    decide(state, c.Cancel("j4"), 1_000)
    assert alive()[Bucket] > before[Bucket]
    del state
    assert alive() == before
