"""The power fails after an answer: what was answered is on the disk, because the disk was asked before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.stores.sqlite import SqliteStore
from tests.server.conftest import MakeWorld
from tests.server.test_jobs import submit
from tests.server.test_leases import claim, register, word
from tests.server.world import World

_names = count()


class ForgetfulDisk(apsw.VFS):
    """The real file system, which remembers of every file what it held when it was last synced."""

    def __init__(self) -> None:
        self.name = f"forgetful-{next(_names)}"
        self.synced: dict[str, bytes] = {}
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - their name
        return _File(self, name, flags)

    def remember(self, path: Path) -> None:
        """A new database is made beside its name, synced and moved there before anything comes through here."""
        self.synced.setdefault(str(path), path.read_bytes())

    def after_a_power_cut(self, into: Path) -> Path:
        """The database as a machine finds it that lost its power now."""
        into.mkdir()
        for path, content in self.synced.items():
            if not path.endswith("-shm"):
                (into / Path(path).name).write_bytes(content)
        return into / "headgate.db"


class _File(apsw.VFSFile):
    def __init__(self, disk: ForgetfulDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._path = "" if name is None else name if isinstance(name, str) else name.filename()

    def xSync(self, flags: int) -> None:  # noqa: N802 - their name
        super().xSync(flags)
        self._disk.synced[self._path] = Path(self._path).read_bytes()


@pytest.fixture
def disk() -> Iterator[ForgetfulDisk]:
    made = ForgetfulDisk()
    yield made
    made.unregister()


def lived(world: World) -> tuple[str, str]:
    """Two jobs, one of them completed, both answered for."""
    with world.client() as client:
        register(client)
        first = submit(client)["id"]
        lease = claim(client)["lease"]
        word(client, lease, "start")
        assert word(client, lease, "complete", result=7).status_code == 200
        answer = client.post("/v2/jobs", json={"name": "last"})
        assert answer.status_code == 201
        return first, str(answer.json()["id"])


def test_what_was_answered_is_there_after_a_power_cut(
    make_world: MakeWorld, disk: ForgetfulDisk, tmp_path: Path
) -> None:
    world = make_world(store=SqliteStore(tmp_path / "headgate.db", vfs=disk.name))
    disk.remember(tmp_path / "headgate.db")
    first, last = lived(world)
    again = make_world(store=SqliteStore(disk.after_a_power_cut(tmp_path / "after")))
    with again.client() as client:
        assert client.get(f"/v2/jobs/{last}").json()["state"] == "queued"
        done = client.get(f"/v2/jobs/{first}").json()
        assert (done["state"], done["result"]) == ("completed", 7)


def test_a_disk_that_is_asked_less_often_loses_some(make_world: MakeWorld, disk: ForgetfulDisk, tmp_path: Path) -> None:
    """The control: without the sync of every commit the same cut does lose what was answered."""
    store = SqliteStore(tmp_path / "headgate.db", vfs=disk.name)
    world = make_world(store=store)
    disk.remember(tmp_path / "headgate.db")

    async def relax() -> None:
        assert store._connection is not None
        store._connection.pragma("synchronous", "NORMAL")

    world.run(relax())
    _, last = lived(world)
    again = make_world(store=SqliteStore(disk.after_a_power_cut(tmp_path / "after")))
    with again.client() as client:
        assert client.get(f"/v2/jobs/{last}").status_code == 404
