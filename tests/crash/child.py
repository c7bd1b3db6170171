"""A real process with an engine and its clients, for killing: `python -m tests.crash.child ROLE PATH [NUMBER...]`.

Everything it was told goes to its standard output, one line in one write, after the answer came. What it is asked to do
comes by its standard input, so that the other side can wait for each step.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headgate.bootstrap.engine import open_engine, start_engine
from headgate.core import commands as c
from headgate.core.errors import HeadgateError
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.engine.local import Face
from headgate.engine.member import Member
from headgate.engine.questions import GetJob, GetLeases
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.stores.sqlite import SqliteStore, connect
from headgate.system import SystemChance, SystemClock
from headgate.testing import job, worker

SETTINGS = Settings(fixed_busy=0, total_units=1_000)
CLIENTS = 3


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def heard() -> str:
    return sys.stdin.readline().strip()


def submission(key: str) -> c.Submit:
    """The same key with another id each time, as a client sends it that does not know what became of its first try."""
    name = f"{key}.{os.getpid()}"
    return c.Submit((c.NewJob(name, job("job", payload={"of": key}, idempotency_key=key)),))


# -- clients that go on until they are killed ---------------------------------------------------------------------


class Client:
    """Submits jobs under keys of its own, and works for a worker of its own."""

    def __init__(self, engine: Face, name: str, number: int) -> None:
        self.engine, self.name, self.number = engine, name, number

    def go_on(self) -> None:
        self.engine.do(c.RegisterWorker(worker(self.name)))
        while True:
            self.submit()
            self.work()

    def submit(self) -> None:
        key = f"{self.name}:{self.number}"
        reply = self.engine.do(submission(key))
        say("submitted", key, reply.ids[0])
        self.number += 1

    def work(self) -> None:
        for lease in self.engine.ask(GetLeases(self.name)):
            if lease.started_at is None:
                self.engine.do(c.Start(lease.id, lease.token))
            self.engine.do(c.Complete(lease.id, lease.token, b'{"by":"%s"}' % self.name.encode()))
            say("completed", lease.job_id)


def clients(path: str, *numbers: str) -> None:
    """An exclusive engine whose clients go on until they are killed. Checkpoints are frequent, so kills hit them."""
    connect.CHECKPOINT_PAGES = 30
    engine = open_engine(path, SETTINGS, exclusive=True)
    say("open", os.getpid())
    together([Client(engine, f"w{at}", int(number)).go_on for at, number in enumerate(numbers)])


def leader(url: str) -> None:
    """An engine on a Postgres whose one client goes on until somebody kills it."""
    engine = open_engine(url, SETTINGS)
    say("open", os.getpid())
    Client(engine, "leader", 0).go_on()


def member(path: str, name: str) -> None:
    """One of several processes on one file."""
    face = open_engine(path, SETTINGS)
    assert isinstance(face, Member)
    say("joined", "owner" if face.owner else "client")
    heard()
    client = Client(face, name, 0)
    face.do(c.RegisterWorker(worker(name)))
    owner = face.owner
    while True:
        client.submit()
        client.work()
        if face.owner != owner:
            owner = face.owner
            say("owner", name)


def together(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# -- one step at a time -------------------------------------------------------------------------------------------


def dies_at(path: str, failpoint: str) -> None:
    """Submit `kept`, then die at a failpoint of the commit of `last`."""
    engine = open_engine(path, SETTINGS, exclusive=True)
    assert isinstance(engine, SharedEngine)
    say("submitted", "kept", engine.do(submission("kept")).ids[0])

    def hook(name: str) -> None:
        if name == failpoint:
            os.kill(os.getpid(), signal.SIGKILL)

    with engine._turn:  # no other commit gets between
        engine.writer._failpoint = hook
        say("submitted", "last", engine.do(submission("last")).ids[0])


def full_disk(path: str) -> None:
    """Commit until there is no more room; then, with room again, see that the engine comes back by itself."""
    import resource  # noqa: PLC0415 - only here

    engine = open_engine(path, SETTINGS, exclusive=True)
    assert isinstance(engine, SharedEngine)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    number = 0
    try:
        while number < 1_000:
            filler = c.NewJob(f"job-{number}", job("big", payload="x" * 20_000))
            engine.do(c.Submit((filler,)))
            number += 1
    except HeadgateError as error:
        say("refused", type(error).__name__, error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))  # not even room for what a start has to write
    for _ in range(2):
        with suppress(HeadgateError):
            engine.do(submission("in vain"))
        with engine._turn:
            engine.rounds.pass_time(engine.clock.now())
        say("problem", engine.problem)
        say("read", engine.ask(GetJob(f"job-{number - 1}")).state)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    say("recovered", engine.recovered(60.0), engine.problem)
    say("submitted", "after", engine.do(submission("after")).ids[0])
    engine.stop()
    say("count", number)


# -- a clock that the other side moves ----------------------------------------------------------------------------


class SharedTime:
    """Two clocks in a file: what the wall says and what the monotonic clock counts, in nanoseconds."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(16))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 16)

    def wall(self) -> int:
        return int(struct.unpack_from("<q", self._memory, 0)[0])

    def monotonic(self) -> int:
        return int(struct.unpack_from("<q", self._memory, 8)[0])

    def set(self, wall_ms: int, monotonic_ms: int) -> None:
        struct.pack_into("<qq", self._memory, 0, wall_ms * 1_000_000, monotonic_ms * 1_000_000)

    def advance(self, milliseconds: int) -> None:
        self.set(self.wall() // 1_000_000 + milliseconds, self.monotonic() // 1_000_000 + milliseconds)


def obedient(path: str, name: str) -> None:
    """An engine on a clock that the other side moves. It does what it is told, line by line."""
    time = SharedTime(Path(path).with_name("time"))
    clock = SystemClock(time.wall, time.monotonic)
    writer = Writer(SqliteStore(path), FirstFit(), SystemChance(), SETTINGS)
    engine = SharedEngine(writer, clock).start()
    engine.do(c.RegisterWorker(worker(name)))
    say("open", os.getpid())
    while order := heard().split():
        try:
            say(*obey(engine, *order))
        except HeadgateError as error:
            say("error", type(error).__name__)
    engine.stop()
    say("closed")


def obey(engine: SharedEngine, verb: str, *words: str) -> tuple[object, ...]:
    match verb:
        case "submit":
            return ("submitted", *engine.do(submission(words[0])).ids)
        case "lease":
            return ("lease", *[f"{lease.id} {lease.token} {lease.job_id}" for lease in engine.ask(GetLeases())])
        case "start":
            engine.do(c.Start(words[0], int(words[1])))
        case "complete":
            engine.do(c.Complete(words[0], int(words[1])))
        case "tick":
            with engine._turn:
                engine.rounds.pass_time(engine.clock.now())
        case "state":
            info = engine.ask(GetJob(words[0]))
            return ("state", info.state, info.attempt)
    return ("done", verb)


# -- places that cannot be opened ---------------------------------------------------------------------------------


def refused(address: str, *rights: str) -> None:
    """Open, as nobody where that was asked for, and say in which words it was refused."""
    if "nobody" in rights and os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        open_engine(address, SETTINGS, exclusive="shared" not in rights).stop()
    except HeadgateError as error:
        say(type(error).__name__, error)


def owner(path: str) -> None:
    """Own a database until told to stop."""
    engine = start_engine(SqliteStore(path), SETTINGS)
    say("open", os.getpid())
    heard()
    engine.stop()


ROLES = {role.__name__: role for role in (clients, leader, member, dies_at, full_disk, obedient, refused, owner)}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
