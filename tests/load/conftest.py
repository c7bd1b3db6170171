"""Fixtures of the tests of load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.testing import ManualClock
from tests.load.world import Make, worlds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_world() -> Iterator[Make]:
    yield from worlds()
