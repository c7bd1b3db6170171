"""Opening a file: the look for damage and the rebuilding of the state happen at once, and both must end well."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headgate.ports import Mark, StoreDamaged, StoreOwned, StoreUnavailable
from headgate.stores.sqlite import SqliteStore, beside
from headgate.testing.store_conformance import Writer, job_row
from tests.stores.sqlite_home import SqliteHome

SOON = 30.0
"""Seconds after which something that must happen has not."""


@pytest.fixture
def home(directory: Path) -> Iterator[SqliteHome]:
    place = SqliteHome(directory)
    writer = Writer(place.at(place.path))
    writer.commit(jobs=[job_row(seq, spec=b"x" * 3_000) for seq in range(1, 20)])
    writer.store.close()
    yield place
    place.close()


def damage(path: Path) -> bytes:
    content = path.read_bytes()
    damaged = content[:8_192] + bytes(8_192) + content[16_384:]
    path.write_bytes(damaged)
    return damaged


def free(path: Path) -> bool:
    """Whether anybody may own the file."""
    again = SqliteStore(path)
    try:
        again.open()
    except StoreOwned:
        return False
    except StoreDamaged:
        return True
    again.close()
    return True


def test_rows_are_read_while_the_file_is_looked_through(home: SqliteHome, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, looking = threading.Event(), threading.Event()

    def look(connection: apsw.Connection, pragma: str) -> list[str]:
        looking.set()
        assert reading.wait(SOON)
        return []

    def rebuild(mark: Mark) -> list[int]:
        assert looking.wait(SOON)
        reading.set()
        return [row.seq for row in store.live_jobs()]

    monkeypatch.setattr(beside, "damage_of", look)
    store = home.at(home.path)
    assert store.open_beside(rebuild) == list(range(1, 20))


def test_nobody_is_served_before_the_file_is_known_to_be_sound(
    home: SqliteHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilt, sound, opened = threading.Event(), threading.Event(), threading.Event()

    def look(connection: apsw.Connection, pragma: str) -> list[str]:
        assert sound.wait(SOON)
        assert not opened.is_set()
        return ["a page is wrong"]

    def open_it() -> None:
        with pytest.raises(StoreDamaged, match="the database is damaged: a page is wrong"):
            store.open_beside(lambda _: rebuilt.set())
        opened.set()

    monkeypatch.setattr(beside, "damage_of", look)
    store = home.at(home.path)
    opener = threading.Thread(target=open_it)
    opener.start()
    assert rebuilt.wait(SOON)
    sound.set()
    opener.join(SOON)
    assert opened.is_set()


def test_a_damaged_file_is_refused_and_left_alone_although_all_that_was_read_looked_well(home: SqliteHome) -> None:
    damaged = damage(home.path)
    store = home.at(home.path)
    with pytest.raises(StoreDamaged, match="the database is damaged"):
        store.open_beside(lambda mark: mark)
    assert home.path.read_bytes() == damaged
    assert free(home.path)


def test_damage_is_told_rather_than_what_the_rebuilding_met_because_of_it(home: SqliteHome) -> None:
    damage(home.path)
    with pytest.raises(StoreDamaged, match="the database is damaged"):
        home.at(home.path).open_beside(lambda _: 1 // 0)


def test_rebuilding_that_fails_on_a_sound_file_changes_nothing_and_lets_go_of_it(home: SqliteHome) -> None:
    before = home.path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        home.at(home.path).open_beside(lambda _: 1 // 0)
    assert home.path.read_bytes() == before
    assert free(home.path)


def test_a_process_that_is_told_to_end_does_not_wait_for_a_large_file(
    home: SqliteHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, ended = threading.Event(), threading.Event()

    def look(connection: apsw.Connection, pragma: str) -> list[str]:
        looking.set()
        try:
            connection.execute("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n")
        finally:
            ended.set()
        return []

    def rebuild(mark: Mark) -> None:
        assert looking.wait(SOON)
        raise KeyboardInterrupt

    monkeypatch.setattr(beside, "damage_of", look)
    with pytest.raises(KeyboardInterrupt):
        home.at(home.path).open_beside(rebuild)
    assert ended.is_set()
    monkeypatch.undo()
    assert free(home.path)


def test_what_somebody_else_commits_meanwhile_is_noticed(home: SqliteHome) -> None:
    def rebuild(mark: Mark) -> None:
        stranger = apsw.Connection(str(home.path))
        stranger.execute("UPDATE meta SET number = number + 1")
        stranger.close()

    with pytest.raises(StoreUnavailable, match="another process wrote to the database"):
        home.at(home.path).open_beside(rebuild)
    assert home.at(home.path).open().epoch == 2
