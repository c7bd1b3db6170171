import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.postgres_home import PostgresHome
from tools.postgres_server import NoPostgres, PostgresServer

# The suite is a library: without this its asserts would say nothing about the values they compared.
for part in ("commits", "history", "upkeep", "world", "home"):
    pytest.register_assert_rewrite(f"headgate.testing.store_conformance.{part}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer(in_memory=True)
        server.start()
    except NoPostgres as reason:
        pytest.skip(f"NOTHING ABOUT POSTGRES IS TESTED: {reason}")
    yield server
    server.remove()


@pytest.fixture
def postgres_home(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[PostgresHome]:
    home = PostgresHome(postgres_server, tmp_path)
    yield home
    home.close()


@pytest.fixture
def directory() -> Iterator[Path]:
    """In memory where there is such a place: no test cuts the power, and a busy disk makes syncs slow."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="headgate-", dir=shared if shared.is_dir() else None) as made:
        yield Path(made)
