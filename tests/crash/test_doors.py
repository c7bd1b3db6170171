"""Addresses that lead nowhere: one clear line, a typed error, and no secret in it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.bootstrap.engine import database_path, open_engine, open_store, start_engine
from headgate.ports import StoreDamaged, StoreUnavailable
from headgate.stores.memory import MemoryStore
from headgate.stores.sqlite import SqliteStore
from tests.crash.child import SETTINGS
from tests.crash.conftest import Run

SECRET = "h0rse-battery"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "the address of the database is empty"),
        ("sqlite://", "sqlite:// needs a path"),
        ("mysql://root:h0rse-battery@host/db", "mysql:// is not a kind of database Headgate knows"),
        ("http://host", "http:// is not a kind of database"),
        ("/nowhere/at/all.db", "the directory /nowhere/at does not exist"),
        ("/dev/null", "not a regular file"),
        ("/tmp", "this is a directory"),
        ("postgresql://user:h0rse-battery@127.0.0.1:notaport/db", "port"),
        ("postgresql://user:h0rse-battery@127.0.0.1/db?schema=No%20Such", "schema"),
    ],
)
@pytest.mark.parametrize("exclusive", [True, False])
def test_a_wrong_address_is_one_clear_line_without_secrets(address: str, message: str, exclusive: bool) -> None:
    with pytest.raises(StoreUnavailable, match=message) as refusal:
        open_engine(address, SETTINGS, exclusive=exclusive)
    assert_tells_in_one_line(refusal.value)


def assert_tells_in_one_line(error: Exception) -> None:
    assert "\n" not in str(error)
    cause: BaseException | None = error
    while cause is not None:
        assert SECRET not in str(cause)
        cause = cause.__cause__


def test_an_unreachable_database_is_one_clear_line_without_secrets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StoreUnavailable, match=str(port)) as refusal:
        open_engine(f"postgresql://user:{SECRET}@127.0.0.1:{port}/db?connect_timeout=5", SETTINGS)
    assert_tells_in_one_line(refusal.value)


def test_without_the_extra_a_postgres_address_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("headgate.stores.postgres")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreUnavailable, match=r"headgate\[postgres\]"):
        open_store("postgresql://host/db")


def test_addresses_lead_to_their_stores(path: Path) -> None:
    assert isinstance(open_store("memory://"), MemoryStore)
    for address in (str(path), f"sqlite://{path}"):
        assert isinstance(open_store(address), SqliteStore)
        assert database_path(address) == path.resolve()
    assert database_path("memory://") is None


def test_a_file_of_something_else_is_refused(path: Path) -> None:
    path.write_text("my diary\n" * 200, encoding="utf-8")
    with pytest.raises(StoreDamaged, match="not a SQLite database"):
        open_engine(str(path), SETTINGS)
    assert path.read_text(encoding="utf-8").startswith("my diary")


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that any user may enter: the tests may run as root, whom nothing is forbidden."""
    directory = Path(tempfile.mkdtemp(prefix="headgate-"))
    directory.chmod(0o777)
    yield directory
    directory.chmod(0o777)
    shutil.rmtree(directory)


@pytest.mark.parametrize("sharing", ["exclusive", "shared"])
def test_no_permission_is_one_clear_line(run: Run, public: Path, sharing: str) -> None:
    path = public / "headgate.db"
    start_engine(SqliteStore(path), SETTINGS).stop()
    path.with_name("headgate.db.lock").chmod(0o666)
    path.chmod(0o444)
    assert run("refused", path, "nobody", sharing).rest() == [f"StoreUnavailable {path}: the file is read-only"]
    path.chmod(0o000)
    assert run("refused", path, "nobody", sharing).rest() == [
        f"StoreUnavailable {path}: no permission to read the file"
    ]
    path.chmod(0o666)
    public.chmod(0o555)
    (line,) = run("refused", public / "new.db", "nobody", sharing).rest()
    assert line.startswith("StoreUnavailable ")
    assert os.strerror(13) in line
