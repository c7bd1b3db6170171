"""Several processes on one database: one owns it, the others are its clients, and a client takes over."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core.errors import JobNotFound, StaleLease, UnknownDependency
from headgate.engine import wire
from headgate.engine.errors import EngineUnreachable
from headgate.engine.local import LocalClient
from headgate.engine.member import Member
from headgate.engine.questions import CountJobs, Explain, FindJobs, GetJob, GetLeases, GetStatus
from headgate.engine.serving import LocalServer
from headgate.engine.shared import SharedEngine
from headgate.ports import JobQuery, StoreOwned
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.system import SystemClock, stopwatch
from headgate.testing import job, worker
from tests.engine.conftest import MakeWriter


def submit(*ids: str, **fields: Any) -> c.Submit:
    return c.Submit(tuple(c.NewJob(id_, job(id_, **fields)) for id_ in ids))


def test_a_client_sees_the_same_engine(make_writer: MakeWriter, tmp_path: Path) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        server = LocalServer(engine, tmp_path / "db.sock", stopwatch)
        server.start()
        client = LocalClient(tmp_path / "db.sock")
        client.do(c.RegisterWorker(worker("w", memory="8GB", labels={"zone": "a"})))
        assert client.do(submit("a", "b", payload={"x": [1, None, "é"]})) == c.Submitted(("a", "b"), (True, True))
        (lease,) = client.ask(GetLeases("w"))
        client.do(c.Start(lease.id, lease.token))
        beat = client.do(c.Heartbeat(lease.id, lease.token))
        assert beat.expires_at > 0
        client.do(c.Complete(lease.id, lease.token, b'{"y":2}'))
        assert client.wait_end("a", 5.0)
        info = client.ask(GetJob("a"))
        assert (str(info.state), info.result) == ("completed", b'{"y":2}')
        assert client.ask(Explain("b")) == engine.ask(Explain("b"))
        assert [found.id for found in client.ask(FindJobs(JobQuery()))] == ["b", "a"]
        assert client.ask(GetStatus()).states["completed"] == 1
        client.stop()
        server.stop()


def test_errors_cross_the_socket_with_their_type_and_details(make_writer: MakeWriter, tmp_path: Path) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        server = LocalServer(engine, tmp_path / "db.sock", stopwatch)
        server.start()
        client = LocalClient(tmp_path / "db.sock")
        with pytest.raises(UnknownDependency, match="dependencies: there is no job 'nobody'") as unknown:
            client.do(submit("a", dependencies=["nobody"]))
        assert unknown.value.field == "dependencies"
        with pytest.raises(StaleLease):
            client.do(c.Heartbeat("1-1", 5))
        with pytest.raises(JobNotFound):
            client.ask(GetJob("nobody"))
        server.stop()
        with pytest.raises(EngineUnreachable):
            client.do(submit("b"))
        client.stop()


def test_the_socket_is_for_its_owner_alone_and_its_path_may_be_long(make_writer: MakeWriter, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        server = LocalServer(engine, deep / "db.sock", stopwatch)
        server.start()
        assert (deep / "db.sock").stat().st_mode & 0o777 == 0o600
        client = LocalClient(deep / "db.sock")
        assert client.ask(CountJobs()) == {}
        client.stop()
        server.stop()
    assert not (deep / "db.sock").exists()


def test_nonsense_on_the_socket_gets_an_error_and_harms_nobody(make_writer: MakeWriter, tmp_path: Path) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        server = LocalServer(engine, tmp_path / "db.sock", stopwatch)
        server.start()
        client = LocalClient(tmp_path / "db.sock")
        channel = client._channel()
        channel.send(b"\xc1 not msgpack")
        answer = channel.receive()
        assert answer is not None
        assert b"DecodeError" in bytes(answer)
        assert client.ask(CountJobs()) == {}
        client.stop()
        server.stop()


def test_a_frame_arrives_whole_however_it_is_cut() -> None:
    here, there = socket.socketpair()
    with here, there:
        channel = wire.Channel(there)
        frames = [b"", b"a", b"b" * 200_000, b"c"]
        data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)

        def trickle() -> None:
            for first in range(20):
                here.sendall(data[first : first + 1])
            here.sendall(data[20:])
            here.shutdown(socket.SHUT_WR)

        sending = threading.Thread(target=trickle)
        sending.start()
        received = [channel.receive() for _ in frames]
        sending.join()
        assert [bytes(frame) for frame in received if frame is not None] == frames
        assert channel.receive() is None


def test_a_frame_that_is_cut_off_is_none() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall((5).to_bytes(4, "big") + b"abc")
        here.shutdown(socket.SHUT_WR)
        assert wire.Channel(there).receive() is None


class SharedDisk:
    """A disk that one engine at a time may own, as a file with a lock."""

    def __init__(self, make_writer: MakeWriter) -> None:
        self.disk = MemoryDisk()
        self.owner: SharedEngine | None = None
        self._make_writer = make_writer
        self._lock = threading.Lock()

    def open_owner(self) -> SharedEngine:
        with self._lock:
            if self.owner is not None and self.owner.writer.stopped is None:
                raise StoreOwned("owned by another member")
            writer = self._make_writer(opened=False)
            writer.store = MemoryStore(self.disk)
            self.owner = SharedEngine(writer, SystemClock()).start()
            return self.owner


def test_the_first_member_owns_and_the_next_takes_over_when_it_leaves(make_writer: MakeWriter, tmp_path: Path) -> None:
    shared = SharedDisk(make_writer)
    path = tmp_path / "headgate.db"
    rest = threading.Event()
    first = Member(path, shared.open_owner, SystemClock(), rest.wait, stopwatch).start()
    second = Member(path, shared.open_owner, SystemClock(), rest.wait, stopwatch).start()
    assert (first.owner, second.owner) == (True, False)
    second.do(submit("a"))
    assert first.ask(CountJobs()) == {"queued": {"normal": 1}}
    first.stop()
    second.do(submit("b"))
    assert second.owner
    assert second.ask(CountJobs()) == {"queued": {"normal": 2}}
    second.stop()
    with pytest.raises(EngineUnreachable):
        second.do(submit("c"))


def test_a_submission_whose_answer_was_lost_is_not_made_twice(make_writer: MakeWriter, tmp_path: Path) -> None:
    shared = SharedDisk(make_writer)
    path = tmp_path / "headgate.db"
    rest = threading.Event()
    first = Member(path, shared.open_owner, SystemClock(), rest.wait, stopwatch).start()
    second = Member(path, shared.open_owner, SystemClock(), rest.wait, stopwatch).start()
    first.do(submit("a"))
    face = second._join(second._face)
    assert second._again(face, submit("a")) == c.Submitted(("a",), (True,))
    second.stop()
    first.stop()
