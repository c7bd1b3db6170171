"""Recovery: rows back to a state, whatever the mix of jobs, and a start that fails leaves nothing held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from headgate.bootstrap.engine import open_engine, start_engine
from headgate.core import commands as c
from headgate.core.errors import InvalidSettings
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.core.verify import verify
from headgate.engine import recovery
from headgate.ports import StoreDamaged
from headgate.stores.memory import MemoryDisk
from headgate.stores.sqlite import SqliteStore
from headgate.testing import ManualClock, job
from tests.engine.conftest import MakeWriter

MANY = recovery._AT_ONCE + 100


def mixed(number: int) -> c.NewJob:
    """Jobs of two kinds in turns, some with a key, some that depend on the one before."""
    fields: dict[str, Any] = {"units": 1 + number % 2, "payload": number, "tenant": "red" if number % 3 else "blue"}
    if number % 500 == 499:
        fields |= {"idempotency_key": f"key {number}", "dependencies": [f"{number - 1:06}"]}
    return c.NewJob(f"{number:06}", job(f"job {number}", **fields))


def content(state: State) -> dict[str, tuple[object, ...]]:
    return {name: (found.spec(), found.kind.of, found.seq, found.state) for name, found in state.jobs.items()}


def test_many_jobs_of_several_kinds_come_back_each_as_it_was(make_writer: MakeWriter, clock: ManualClock) -> None:
    writer = make_writer()
    writer.accept(c.Submit(tuple(mixed(number) for number in range(MANY))), clock.now(), lambda _: None)
    writer.flush()
    again = make_writer()
    assert content(again.state) == content(writer.state)
    assert {kind.of: kind.jobs for kind in again.state.kinds.values()} == {
        kind.of: kind.jobs for kind in writer.state.kinds.values()
    }
    assert [again.state.ready.size, again.state.counts] == [writer.state.ready.size, writer.state.counts]
    verify(again.state)


@pytest.mark.parametrize("body", [b"", b"\x90", b"\xc0", b"\x99", b"\xdc\x00\x09", b"\x92\xc0\xa1a", b"\x91\x91\xa1a"])
def test_a_specification_that_is_none_is_damage(
    make_writer: MakeWriter, disk: MemoryDisk, clock: ManualClock, body: bytes
) -> None:
    writer = make_writer()
    writer.accept(c.Submit((mixed(1), mixed(2))), clock.now(), lambda _: None)
    writer.flush()
    disk.jobs[2] = disk.jobs[2]._replace(spec=body)
    with pytest.raises(StoreDamaged, match="a row cannot be read"):
        make_writer()


def test_a_specification_with_a_later_field_can_still_be_read(
    make_writer: MakeWriter, disk: MemoryDisk, clock: ManualClock
) -> None:
    writer = make_writer()
    writer.accept(c.Submit((mixed(1),)), clock.now(), lambda _: None)
    writer.flush()
    fields = msgspec.msgpack.decode(disk.jobs[1].spec)
    disk.jobs[1] = disk.jobs[1]._replace(spec=msgspec.msgpack.encode([*fields, "new"]))
    assert content(make_writer().state) == content(writer.state)


def test_settings_that_are_refused_leave_the_file_free(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    wrong = Settings(retention=Retention(jobs=-1))
    for _ in range(2):
        with pytest.raises(InvalidSettings, match=r"retention\.jobs"):
            open_engine(str(path), wrong, patience=1_000)
    start_engine(SqliteStore(path)).stop()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE job SET spec = x'c1'", "a row cannot be read"),
        ("UPDATE journal SET events = x'c1'; UPDATE meta SET indexed = 0", "the journal cannot be read"),
    ],
)
def test_what_cannot_be_read_leaves_the_file_free(tmp_path: Path, damage: str, told: str) -> None:
    path = tmp_path / "headgate.db"
    engine = start_engine(SqliteStore(path))
    engine.do(c.Submit((mixed(1),)))
    engine.stop()
    connection = apsw.Connection(str(path))
    connection.execute(damage)
    connection.close()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=told):
            start_engine(SqliteStore(path))
