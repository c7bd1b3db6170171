from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.policy.host import PolicyHost
from headgate.policy.verdict import HostSettings
from tests.policy.world import state


@pytest.fixture(scope="module")
def host() -> Iterator[PolicyHost]:
    """A host over the small world, shared by the tests of a file."""
    host = PolicyHost(HostSettings(), resync=state)
    host.start()
    yield host
    host.stop()
