"""Killed while the log is being moved into the database: the file is sound, and nothing acknowledged is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.at_rest import Told, check_at_rest

CHILD = """
import os, signal, sys
from pathlib import Path
import apsw
from headgate.bootstrap.engine import start_engine
from headgate.stores.sqlite import SqliteStore
from tests.crash.child import SETTINGS, say, submission

path, left = Path(sys.argv[1]), int(sys.argv[2])
moving = False

class File(apsw.VFSFile):
    def __init__(self, name, flags):
        super().__init__("", name, flags)
        text = "" if name is None else name if isinstance(name, str) else name.filename()
        self.is_database = text.endswith(".db")

    def xWrite(self, data, offset):
        global left
        if moving and self.is_database:
            left -= 1
            if left == 0:
                super().xWrite(data[: len(data) // 2], offset)  # half a page, as a kill between two blocks leaves it
                os.kill(os.getpid(), signal.SIGKILL)
        super().xWrite(data, offset)

    def xSync(self, flags):
        global left
        if moving and self.is_database:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        super().xSync(flags)

class Disk(apsw.VFS):
    def __init__(self):
        super().__init__("dying", "")

    def xOpen(self, name, flags):
        return File(name, flags)

disk = Disk()
store = SqliteStore(path, vfs="dying")
engine = start_engine(store, SETTINGS)
for number in range(200):
    key = f"k:{number}"
    say("submitted", key, engine.do(submission(key)).ids[0])
moving = True
store._connection.pragma("wal_checkpoint", "TRUNCATE")
say("moved")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("operation", [1, 2, 5, 20, 10_000])
def test_killed_during_a_checkpoint_nothing_is_damaged_or_lost(tmp_path: Path, operation: int) -> None:
    path = tmp_path / "headgate.db"
    command = [sys.executable, "-c", CHILD, str(path), str(operation)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -9, done.stderr
    lines = done.stdout.splitlines()
    assert ("moved" in lines) == (operation == 10_000)
    told = Told()
    told.take(lines)
    assert len(told.submitted) == 200
    assert len(check_at_rest(path, told)) == 200
