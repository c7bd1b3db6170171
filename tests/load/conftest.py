"""Fixtures of the tests of load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.load.world import Make, worlds

from headgate.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_world() -> Iterator[Make]:
    yield from worlds()
