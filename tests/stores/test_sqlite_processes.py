"""Several processes on one file: one owner at a time, and a killed owner loses nothing it has acknowledged."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.ports import JobQuery, StoreOwned
from headgate.stores.sqlite import SqliteStore
from headgate.testing.store_conformance import Writer, job_row

PREAMBLE = """
import os, sys
from headgate.stores.sqlite import SqliteStore, connect
from headgate.testing.store_conformance import Writer, job_row, end_row, lease_row
def say(text):
    os.write(1, f"{text}\\n".encode())
"""

OWNER = """
SqliteStore(sys.argv[1]).open()
say("open")
sys.stdin.readline()
"""

# Each round opens the file, tells of every commit after it was sealed, and goes on until it is killed. A small limit
# makes checkpoints as frequent as commits, so that kills hit them too.
ENDLESS_WRITER = """
connect.CHECKPOINT_PAGES = 30
writer = Writer(SqliteStore(sys.argv[1]))
seq = writer.mark.seq
while True:
    batch = range(seq + 1, seq + 4)
    writer.commit(jobs=[job_row(n, spec=b"x" * 1_000) for n in batch], leases=[lease_row(seq + 1)], journal=b"x" * 300)
    say(f"submitted {seq + 3}")
    writer.commit(ends=[end_row(seq + 1)], leases_gone=[seq + 1], seq=seq + 3, journal=b"y")
    say(f"ended {seq + 1}")
    seq += 3
"""

# The child of the owner outlives it.
FORKING_OWNER = """
writer = Writer(SqliteStore(sys.argv[1]))
if os.fork() == 0:
    try:
        writer.commit(jobs=[job_row(1)])
        say("the child wrote")
    except Exception as error:
        say(f"{os.getpid()} {error}")
    sys.stdin.readline()
else:
    os.wait()
"""


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "headgate.db"


@contextmanager
def process(script: str, path: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", PREAMBLE + script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def line_of(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_a_second_process_is_told_who_owns_the_file(path: Path) -> None:
    store = SqliteStore(path)
    with process(OWNER, path) as owner:
        assert line_of(owner) == "open"
        with pytest.raises(StoreOwned, match=f"owned by process {owner.pid} on "):
            store.open()
        owner.communicate("\n")
    store.open()
    store.close()


def test_a_killed_owner_holds_nothing(path: Path) -> None:
    with process(OWNER, path) as owner:
        assert line_of(owner) == "open"
        owner.kill()
        owner.wait()
        writer = Writer(SqliteStore(path))
        assert writer.mark.epoch == 2
        writer.store.close()


def test_a_forked_child_neither_writes_nor_keeps_the_lock(path: Path) -> None:
    with process(FORKING_OWNER, path) as owner:
        pid, _, said = line_of(owner).partition(" ")
        assert said.endswith("a forked process cannot use its parent's store")
        owner.kill()
        # Not the child: it still has the pipe.
        os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{pid}").exists()
        store = SqliteStore(path)
        store.open()
        store.close()
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("kills", [10, pytest.param(150, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments_loses_nothing_acknowledged(path: Path, kills: int) -> None:
    chance = random.Random(9)
    submitted = 0
    ended: set[int] = set()
    for _ in range(kills):
        for line in lines_until_killed(path, chance.randint(1, 120)):
            what, _, number = line.partition(" ")
            submitted = int(number) if what == "submitted" else submitted
            ended |= {int(number)} if what == "ended" else set()
        writer = Writer(SqliteStore(path))
        found = writer.store.find_jobs(JobQuery(order="oldest", limit=100_000))
        assert [view.job.seq for view in found[:submitted]] == list(range(1, submitted + 1))
        assert len(found) - submitted in {0, 3}
        assert ended <= {view.job.seq for view in found if view.end is not None}
        assert writer.store.check() == []
        assert [row.number for row in writer.store.journal()] == list(range(1, writer.mark.number + 1))
        writer.store.close()
    assert submitted > 300


def lines_until_killed(path: Path, lines: int) -> list[str]:
    """What a writer has acknowledged by the time it is killed; it may have sealed one commit more."""
    with process(ENDLESS_WRITER, path) as writer:
        heard = [line_of(writer) for _ in range(lines)]
        writer.kill()
        assert writer.stdout is not None
        return heard + [line for line in writer.stdout.read().splitlines() if line.strip()]


def test_an_owner_that_takes_over_after_a_kill_goes_on_where_it_was(path: Path) -> None:
    acknowledged = lines_until_killed(path, 9)
    writer = Writer(SqliteStore(path))
    before = writer.mark.seq
    assert before >= int(acknowledged[-1].split()[1])
    writer.commit(jobs=[job_row(before + 1)])
    assert writer.store.check() == []
    writer.store.close()
