import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# The suite is a library: without this its asserts would say nothing about the values they compared.
for part in ("commits", "history", "upkeep", "world", "home"):
    pytest.register_assert_rewrite(f"headgate.testing.store_conformance.{part}")


@pytest.fixture
def directory() -> Iterator[Path]:
    """In memory where there is such a place: no test cuts the power, and a busy disk makes syncs slow."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="headgate-", dir=shared if shared.is_dir() else None) as made:
        yield Path(made)
