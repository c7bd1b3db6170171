"""The owner's side of the socket: one thread for all, and nobody who is slow, silent or gone holds up the others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core.errors import JobNotFound
from headgate.core.events import Failure
from headgate.engine import wire
from headgate.engine.errors import EngineStopped
from headgate.engine.local import LocalClient
from headgate.engine.questions import CountJobs, GetLeases, GetStatus
from headgate.engine.serving import LocalServer
from headgate.engine.shared import SharedEngine
from headgate.engine.working import WaitLease, Work, Worked
from headgate.ports import CommitFailed
from headgate.system import SystemClock, stopwatch
from headgate.testing import job, worker
from tests.engine.conftest import FaultyStore, MakeWriter, disk_full

WITHIN = 20.0


class Office:
    """An engine behind its socket."""

    def __init__(self, engine: SharedEngine, path: Path) -> None:
        self.engine = engine
        self.path = path
        self.server = LocalServer(engine, path, stopwatch)
        self.server.start()
        self.client = LocalClient(path)
        self._connections: list[socket.socket] = []

    def connect(self) -> wire.Channel:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(WITHIN)
        connection.connect(str(self.path))
        self._connections.append(connection)
        return wire.Channel(connection)

    def close(self) -> None:
        self.client.stop()
        for connection in self._connections:
            connection.close()
        self.server.stop()

    @property
    def store(self) -> FaultyStore:
        store = self.engine.writer.store
        assert isinstance(store, FaultyStore)
        return store

    def waiting(self) -> int:
        """How many wait for something, once everything that was sent before has been taken in."""
        self.client.ask(GetStatus())
        return len(self.engine._vigils)


@pytest.fixture
def office(make_writer: MakeWriter, tmp_path: Path) -> Iterator[Office]:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        there = Office(engine, tmp_path / "db.sock")
        yield there
        there.close()


def submit(*ids: str, **fields: Any) -> c.Submit:
    return c.Submit(tuple(c.NewJob(id_, job(id_, **fields)) for id_ in ids))


def ask(channel: wire.Channel, request: Any) -> Any:
    channel.send(wire.encode_request(request))
    return told(channel, request)


def told(channel: wire.Channel, request: Any) -> Any:
    frame = channel.receive()
    assert frame is not None
    return wire.decode_answer(request, frame)


def listen(office: Office, worker_id: str = "w", within: float = WITHIN) -> tuple[wire.Channel, Work]:
    channel, asked = office.connect(), Work(worker_id, within=within)
    channel.send(wire.encode_request(asked))
    return channel, asked


def test_a_worker_that_waits_is_given_the_lease_by_whoever_submits(office: Office) -> None:
    office.engine.do(c.RegisterWorker(worker("w")))
    channel, asked = listen(office)
    assert office.waiting() == 1
    office.engine.do(submit("a"))
    worked: Worked = told(channel, asked)
    assert [grant.job_id for grant in worked.grants] == ["a"]
    assert office.waiting() == 0


def test_words_and_what_they_make_room_for_share_a_commit(office: Office) -> None:
    office.engine.do_all([c.RegisterWorker(worker("w")), submit("a", "b")])
    channel = office.connect()
    (first,) = ask(channel, Work("w")).grants
    before = office.store.seals
    said = (c.Start(first.lease_id, first.token), c.Complete(first.lease_id, first.token, b"1"))
    (second,) = ask(channel, Work("w", said)).grants
    assert (first.job_id, second.job_id) == ("a", "b")
    assert office.store.seals == before + 1


def test_a_worker_that_waits_in_vain_is_told_so_in_time(office: Office) -> None:
    office.engine.do(c.RegisterWorker(worker("w")))
    channel, asked = listen(office, within=0.01)
    assert told(channel, asked).news is False
    assert office.waiting() == 0


def test_refused_words_are_told_at_once_however_long_the_worker_would_wait(office: Office) -> None:
    office.engine.do(c.RegisterWorker(worker("w")))
    worked = ask(office.connect(), Work("w", (c.Complete("1-1", 5, b"1"),), within=WITHIN))
    assert [(refused.word, refused.code) for refused in worked.refused] == [(0, "stale_lease")]


def test_a_worker_that_hangs_up_while_it_waits_is_given_nothing(office: Office) -> None:
    office.engine.do(c.RegisterWorker(worker("w")))
    channel, _ = listen(office)
    assert office.waiting() == 1
    channel.connection.close()
    office.engine.wait_for(lambda state: state.workers["w"].spec.pull, WITHIN)
    assert office.waiting() == 0
    office.engine.do(submit("a"))
    assert office.engine.ask(GetLeases("w")) == []


def test_waiting_for_an_end_and_for_a_lease_holds_up_nobody(office: Office) -> None:
    office.engine.do_all([submit("a"), submit("outside", run={"kind": "external"})])
    end, lease = office.connect(), office.connect()
    end.send(wire.encode_request(wire.WaitEnd("a", WITHIN)))
    assert ask(lease, WaitLease("outside", WITHIN)).job_id == "outside"
    assert office.waiting() == 1
    office.client.do(c.Cancel("a"))
    assert told(end, wire.WaitEnd("a", WITHIN)) is True
    assert ask(end, wire.WaitEnd("outside", 0.0)) is False
    with pytest.raises(JobNotFound):
        ask(end, wire.WaitEnd("nobody", WITHIN))


def test_a_caller_that_does_not_read_its_answer_holds_up_nobody(office: Office) -> None:
    office.engine.do(submit("large", payload="x" * 1_000_000))
    office.engine.do(c.RegisterWorker(worker("w")))
    slow = office.connect()
    slow.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    slow.send(wire.encode_request(Work("w")))
    assert office.client.ask(CountJobs()) == {"leased": {"normal": 1}}
    (grant,) = told(slow, Work("w")).grants
    assert len(grant.payload) == 1_000_002


@pytest.mark.parametrize("together", [True, False])
def test_who_asks_again_before_the_answer_is_hung_up_on(office: Office, *, together: bool) -> None:
    office.engine.do(c.RegisterWorker(worker("w")))
    channel, again = office.connect(), wire.framed(wire.encode_request(GetStatus()))
    asked = wire.framed(wire.encode_request(Work("w", within=WITHIN)))
    channel.connection.sendall(asked + (again if together else b""))
    if not together:
        assert office.waiting() == 1
        channel.connection.sendall(again)
    assert channel.receive() is None
    assert office.waiting() == 0


def test_a_frame_that_is_too_large_ends_the_connection(office: Office) -> None:
    channel = office.connect()
    channel.connection.sendall((wire.LARGEST + 1).to_bytes(4, "big"))
    assert channel.receive() is None
    assert office.client.ask(CountJobs()) == {}


def test_a_request_in_pieces_is_answered_when_it_is_whole(office: Office) -> None:
    channel = office.connect()
    data = wire.framed(wire.encode_request(submit("a", payload="x" * 300_000)))
    for place in range(0, len(data), 100_000):
        channel.connection.sendall(data[place : place + 100_000])
        office.client.ask(CountJobs())  # the others go on between the pieces
    assert told(channel, submit("a")).ids == ("a",)


def test_when_the_commit_fails_everybody_hears_of_it_and_nobody_is_given_anything(office: Office) -> None:
    office.engine.do(c.RegisterWorker(worker("w")))
    channel, asked = listen(office)
    assert office.waiting() == 1
    office.store.fail_seal = disk_full()
    with pytest.raises(CommitFailed):
        office.client.do(submit("a"))
    with pytest.raises((CommitFailed, EngineStopped)):
        told(channel, asked)
    office.store.fail_seal = None
    assert office.engine.recovered(WITHIN)
    assert office.engine.ask(CountJobs()) == {}


def test_a_server_that_stops_ends_its_connections_and_lets_go_of_the_workers(office: Office) -> None:
    office.engine.do(c.RegisterWorker(worker("w")))
    channel, _ = listen(office)
    assert office.waiting() == 1
    office.server.stop()
    office.server.stop()
    assert channel.receive() is None
    assert not office.path.exists()
    assert office.engine.read(lambda state: state.workers["w"].spec.pull)


def test_an_engine_that_stops_tells_those_who_wait(make_writer: MakeWriter) -> None:
    engine = SharedEngine(make_writer(opened=False), SystemClock()).start()
    engine.do(submit("a"))
    outcome: list[object] = []

    def wait() -> None:
        try:
            outcome.append(engine.wait_end("a", WITHIN))
        except EngineStopped as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    engine.wait_for(lambda _: len(engine._vigils) > 0, WITHIN)
    engine.stop()
    waiting.join(WITHIN)
    assert isinstance(outcome[0], EngineStopped)


def test_only_those_who_have_an_answer_are_woken(make_writer: MakeWriter) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        engine.do_all([c.RegisterWorker(worker("w", slots=2)), submit("a"), submit("b")])
        leases = {lease.job_id: lease for lease in engine.ask(GetLeases())}
        ended: list[str] = []

        def wait(name: str) -> None:
            engine.wait_end(name, WITHIN)
            ended.append(name)

        threads = [threading.Thread(target=wait, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        engine.wait_for(lambda _: len(engine._vigils) >= 2, WITHIN)
        for name, thread in zip("ab", threads, strict=True):
            lease = leases[name]
            engine.do_all([c.Start(lease.id, lease.token), c.Fail(lease.id, lease.token, Failure("no"))])
            thread.join(WITHIN)
            assert ended[-1] == name
        assert ended == ["a", "b"]
