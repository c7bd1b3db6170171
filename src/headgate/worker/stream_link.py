"""A worker's link over the stream of a server: leases are pushed, words and heartbeats travel in batches.

Whoever waits here for something, and finds nobody reading, reads the stream for all who wait: a lease goes from the
network to the thread that begins its work without a thread in between. A keeper makes the connection anew when it
breaks, and has a look at it while nobody waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec
from websockets.exceptions import InvalidHandshake, InvalidStatus

from headgate.client.errors import ConnectionFailed
from headgate.client.http import Http, segment
from headgate.core.errors import HeadgateError
from headgate.ports import Clock
from headgate.wire import stream as m
from headgate.wire.http import BeatOut, ErrorOut, LeaseOut, WorkerIn, WorkerOut
from headgate.worker.assignment import Assignment, GivenJob, from_wire
from headgate.worker.link import LinkDown, Turn
from headgate.worker.web_socket import Ended, WebSocket, connect

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
ANSWER = 15.0
"""Seconds to wait for the answer to a message."""
LOOK = 5.0
"""Seconds after which the keeper has a look at the stream: the server wants its pings answered within twenty."""
LARGEST = 1 << 20
"""Bytes of words in one message, about."""


class _Given(m.Message, frozen=True, tag="granted"):
    """`Granted`, as a worker reads it."""

    leases: list[LeaseOut]
    jobs: list[GivenJob]
    heard: int = 0
    now: float | None = None


_decode = msgspec.json.Decoder(_Given | m.WordsDone | m.BeatsDone | m.Stop | m.Leave).decode


class NoStream(HeadgateError):
    """The server, or what stands before it, speaks no WebSocket."""


class StreamLink:
    """One connection, made anew when it breaks."""

    def __init__(self, http: Http, worker_id: str, clock: Clock, uniform: Callable[[], float]) -> None:
        self._http = http
        self._worker_id = worker_id
        self._clock = clock
        self._uniform = uniform
        self._spec: WorkerIn | None = None
        self._refs = count(1)
        self._changed = threading.Condition()
        self._waiting = 0
        """How many threads wait for something to change."""
        self._reading = False
        """Whether one of them reads the stream."""
        self._answers: dict[int, Any] = {}
        self._sent: dict[int, int] = {}
        """When messages of this connection were sent, as long as the server may refer to them; 0 is the connection."""
        self._grants: list[Assignment] = []
        self._gone: list[str] = []
        self._let_go: list[tuple[str, int]] = []
        self._leave = ""
        self._socket: WebSocket | None = None
        self._broken = threading.Event()
        """For the keeper: the connection has to be made anew, or nothing has to be kept any more."""
        self._closed = threading.Event()
        self._draining = False
        self._keeper: threading.Thread | None = None
        self._left = False

    # -- the link -------------------------------------------------------------------------------------------------

    def register(self, spec: WorkerIn) -> None:
        """Join; without a stream nothing is granted. `NoStream` if there can be none."""
        self._spec = msgspec.structs.replace(spec, pull=True)
        self._join()
        if self._keeper is None:
            self._attach()
            self._keeper = threading.Thread(target=self._keep, name="headgate-stream", daemon=True)
            self._keeper.start()

    def turn(
        self,
        words: Sequence[tuple[str, m.Word]],
        held: Collection[str],  # noqa: ARG002 - the server knows
        told: Collection[str],  # noqa: ARG002 - the server knows
        *,
        wants: bool,  # noqa: ARG002 - what was pushed is here, wanted or not
        within: float,
    ) -> Turn:
        """Say words and take what has been pushed."""
        refused: list[tuple[int, ErrorOut]] = []
        for first, part in _parts([word for _, word in words]):
            done = self._ask(m.Words(next(self._refs), part))
            for place, problem in enumerate(done.problems, first):
                if problem is not None:
                    refused.append((place, ErrorOut(problem.code, problem.detail)))
        with self._changed:
            if within > 0:
                self._await(lambda: self._news or self._closed.is_set() or self._draining, within)
            grants, self._grants = self._grants, []
            gone, self._gone = self._gone, []
            let_go, self._let_go = self._let_go, []
            leave, self._leave = self._leave, ""
        return Turn(tuple(refused), tuple(grants), tuple(gone), tuple(let_go), self._draining, leave)

    def beat(self, leases: Sequence[tuple[str, int]]) -> list[BeatOut]:
        """Renew leases; with none it is a sign of life of the worker itself."""
        return list(self._ask(m.Beats(next(self._refs), list(leases))).beats)

    def drain(self) -> None:
        """Take no further work."""
        self._draining = True
        self._wake()
        self._ask(m.Drain(next(self._refs)))

    def leave(self) -> None:
        """The worker is gone for good."""
        self._left = True
        self._http.call("DELETE", f"/v2/workers/{segment(self._worker_id)}", Any)

    def close(self) -> None:
        """Hang up."""
        self._closed.set()
        self._broken.set()
        with self._changed:
            if self._socket is not None:
                self._socket.hang_up()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._reading)
            self._lose("the link is closed")
        if self._keeper is not None:
            self._keeper.join()

    # -- the connection -------------------------------------------------------------------------------------------

    def _join(self) -> None:
        try:
            self._http.post("/v2/workers", self._spec, WorkerOut)
        except ConnectionFailed as error:
            raise LinkDown(str(error)) from error

    def _open(self) -> WebSocket:
        url = "ws" + self._http.url.removeprefix("http") + f"/v2/workers/{segment(self._worker_id)}/stream"
        headers = {"authorization": f"Bearer {self._http.token}"} if self._http.token else {}
        try:
            return connect(url, headers, within=10.0)
        except InvalidStatus as error:
            raise NoStream(f"the server answered {error.response.status_code} to the stream") from error
        except InvalidHandshake as error:
            raise NoStream(f"no stream: {error}") from error
        except OSError as error:
            raise LinkDown(f"no stream: {error}") from error

    def _attach(self) -> None:
        began = self._clock.now()
        socket = self._open()
        with self._changed:
            self._socket = socket
            self._sent = {0: began}
            self._broken.clear()
            self._changed.notify_all()
            if self._closed.is_set():
                self._lose("the link is closed")

    def _keep(self) -> None:
        pause = 0.0
        while not self._closed.is_set():
            if not self._broken.wait(LOOK):
                pause = 0.0
                self._look()
                continue
            if self._left or self._closed.wait(pause * (0.5 + self._uniform())):
                return
            pause = min(5.0, pause * 2 or 0.05)  # also for a server that takes us and hangs up at once
            try:
                self._join()
                self._attach()
            except HeadgateError as error:
                _log.warning("the stream is down: %s", error)

    def _look(self) -> None:
        """Pings are to be answered, and a broken connection is to be noticed, also while nobody waits."""
        with self._changed:
            if not self._reading and self._socket is not None:
                self._read(self._socket, 0.0)

    # -- with the condition held ----------------------------------------------------------------------------------

    def _await(self, done: Callable[[], object], within: float) -> bool:
        """Wait until it is done, or the time is up; read the stream for everybody if nobody does."""
        until = self._clock.now() + round(within * 1000)
        self._waiting += 1
        try:
            while not done():
                left = (until - self._clock.now()) / 1000
                if left <= 0:
                    return False
                if self._reading or self._socket is None:
                    self._changed.wait(left)
                else:
                    self._read(self._socket, left)
        finally:
            self._waiting -= 1
            if self._waiting and not self._reading:
                self._changed.notify()  # somebody else has to read now
        return True

    def _read(self, socket: WebSocket, within: float) -> None:
        """Take what comes, for everybody."""
        self._reading = True
        self._changed.release()
        try:
            messages, problem = _received(socket, within)
        finally:
            self._changed.acquire()
            self._reading = False
        for message in messages:
            self._hear(message)
        if problem is not None:
            self._lose(problem)
        if self._waiting > 1 or self._closed.is_set():
            self._changed.notify_all()

    def _lose(self, reason: str) -> None:
        """The connection is over: whoever waits for an answer is told, and the keeper makes a new one."""
        if self._socket is not None:
            _log.info("the stream has ended: %s", reason)
            self._socket.close()
            self._socket = None
        self._answers = dict.fromkeys(self._answers, LinkDown("the stream has ended"))
        self._broken.set()
        self._changed.notify_all()

    def _hear(self, message: Any) -> None:
        match message:
            case _Given():
                self._grants += self._granted(message)
            case m.Stop() if message.let_go_by is None:
                self._gone.append(message.lease_id)
            case m.Stop():
                self._let_go.append((message.lease_id, _LEFT))
            case m.Leave():
                self._leave = message.reason or "it was evicted"
            case _ if message.ref in self._answers:
                self._answers[message.ref] = message
                self._forget_before(message.ref)

    def _granted(self, message: _Given) -> Iterator[Assignment]:
        """Leases that were pushed. They are sure for as long as they are from the last message that was heard."""
        heard_at = self._sent.get(message.heard)
        self._forget_before(message.heard)
        for lease, job in zip(message.leases, message.jobs, strict=True):
            sure_until = None
            if heard_at is not None and message.now is not None:
                sure_until = heard_at + round((lease.expires_at - message.now) * 1000)
            yield from_wire(lease, job, sure_until)

    def _forget_before(self, ref: int) -> None:
        """What the server says from now on refers to this message, or to a later one."""
        for old in [sent for sent in self._sent if sent < ref]:
            del self._sent[old]

    # -- questions ------------------------------------------------------------------------------------------------

    def _ask(self, message: m.Words | m.Beats | m.Drain) -> Any:
        with self._changed:
            socket = self._socket
            if socket is None:
                raise LinkDown("the stream is down")
            self._answers[message.ref] = None
            self._sent[message.ref] = self._clock.now()
        try:
            socket.send(_encode(message), ANSWER)
        except Ended as error:
            socket.hang_up()
            with self._changed:
                del self._answers[message.ref]
            raise LinkDown(f"the stream has ended: {error}") from error
        with self._changed:
            self._await(lambda: self._answers[message.ref] is not None, ANSWER)
            answer = self._answers.pop(message.ref)
        if answer is None:
            socket.hang_up()
            raise LinkDown("the server does not answer")
        if isinstance(answer, LinkDown):
            raise answer
        return answer

    @property
    def _news(self) -> bool:
        return bool(self._grants or self._gone or self._let_go or self._leave)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _received(socket: WebSocket, within: float) -> tuple[list[Any], str | None]:
    """Messages from the server, and why there will be no more, if that is so."""
    try:
        return [_decode(message) for message in socket.receive(within)], None
    except (Ended, msgspec.MsgspecError) as error:
        return [], str(error)


_LEFT = 5_000
"""Milliseconds to give back a lease when room is needed: the next heartbeat says it exactly."""


def _parts(words: list[m.Word]) -> list[tuple[int, list[m.Word]]]:
    """Words in messages of a size that any server takes, each with the place of its first."""
    parts: list[tuple[int, list[m.Word]]] = []
    size = LARGEST
    for place, word in enumerate(words):
        own = 200 + len(bytes(word.result)) + 2 * len(word.log) + (len(word.error.traceback) if word.error else 0)
        if size + own > LARGEST:
            parts.append((place, []))
            size = 0
        parts[-1][1].append(word)
        size += own
    return parts
