"""The owner's side of the local socket: one thread for all connections, one commit for all that has come.

It reads what is there, carries it out in one round, and sends the answers; nobody is woken in between. A request that
waits for something is kept as a vigil: whoever leads the round that brings the answer sends it. What only the store
knows may take long to find, so that is looked up in other threads.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import select
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from headgate.core import commands as c
from headgate.core.lease import Lease
from headgate.engine import wire
from headgate.engine.caller import Caller
from headgate.engine.company import Company
from headgate.engine.local import reachable
from headgate.engine.questions import STORED, Question, ended
from headgate.engine.rounds import Pending, Ticket
from headgate.engine.shared import SharedEngine
from headgate.engine.vigils import Awaited, Listening, Said, Vigil
from headgate.engine.working import WaitLease, Work, external_lease

_READERS = 4
_SELECTABLE = 1024
_OUTSIDE = (*STORED, wire.Compact)


class LocalServer:
    """Serves an engine on a Unix socket."""

    def __init__(self, engine: SharedEngine, path: Path, stopwatch: Callable[[], float]) -> None:
        self._engine = engine
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._bound: os.stat_result | None = None
        self._stopwatch = stopwatch
        self._company = Company()
        self._speaking: set[int] = set()
        """Workers that have said something since the last round, by their connections."""
        self._epoll = select.epoll()
        self._callers: dict[int, Caller] = {}
        self._tickets: list[tuple[Caller, Pending[Any]]] = []
        self._vigils: list[Vigil[Any]] = []
        self._due: list[tuple[int, int, Caller, Vigil[Any]]] = []
        """When whoever waits is to be told that there is no answer yet."""
        self._numbers = count()
        self._readers = ThreadPoolExecutor(_READERS, "headgate-reader")
        self._serving: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to serve. Only the owner of the database calls this, so a socket that is there is a dead one's."""
        self._path.unlink(missing_ok=True)
        previous = os.umask(0o177)
        try:
            with reachable(self._path) as address:
                self._listener.bind(address)
        finally:
            os.umask(previous)
        self._bound = self._path.stat()
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._serving = threading.Thread(target=self._serve, name="headgate-local", daemon=True)
        self._serving.start()

    def stop(self) -> None:
        """Serve no more; callers see the connection end. Stopping twice is the same as once."""
        self._stopping = True
        self._unlink()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which the loop hears
        if self._serving is not None:
            self._serving.join()
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._listener.close()
        self._epoll.close()

    def _unlink(self) -> None:
        """Remove the socket, unless another owner has put its own there."""
        bound, self._bound = self._bound, None
        with contextlib.suppress(FileNotFoundError):
            if bound is not None and os.path.samestat(bound, self._path.stat()):
                self._path.unlink()

    # -- the loop -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        finally:
            for caller in list(self._callers.values()):
                self._hang_up(caller)

    def _turn(self) -> None:
        """Everything that has come since the last turn, in one round."""
        self._take_in(self._patience())
        if self._speaking:
            self._gather()
        if self._vigils or self._tickets:
            self._round()
        self._give_up()

    def _take_in(self, patience: float | None) -> None:
        for number, what in self._epoll.poll(patience):
            caller = self._callers.get(number)
            if caller is None:
                self._accept()
                continue
            if what & select.EPOLLOUT:
                caller.send_rest()
            if what & ~select.EPOLLOUT:
                self._hear(caller)

    def _gather(self) -> None:
        """Wait a moment for workers that are about to speak: they share the commit."""
        now = self._stopwatch()
        until = now + self._company.patience(self._speaking, now)
        if until <= now or self._epoll.fileno() >= _SELECTABLE:
            return
        while (left := until - self._stopwatch()) > 0 and self._company.missing(self._speaking):
            select.select((self._epoll,), (), (), left)  # the only one that waits for less than a millisecond
            self._take_in(0)
        self._company.waited(came=not self._company.missing(self._speaking))

    def _round(self) -> None:
        tickets, self._tickets = self._tickets, []
        vigils, self._vigils = self._vigils, []
        speaking, self._speaking = self._speaking, set()
        began = self._stopwatch()
        self._engine.serve([ticket for _, ticket in tickets], vigils)
        if speaking:
            self._company.served(speaking, began, self._stopwatch())
        for caller, ticket in tickets:
            if isinstance(ticket, Ticket):
                caller.answer(_encoded(ticket, ticket.reply))

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it hung up at once, or `stop` has closed the door
            return
        connection.setblocking(False)
        self._callers[connection.fileno()] = Caller(connection, self._epoll)

    def _hang_up(self, caller: Caller) -> None:
        """The caller is gone; what it asked for stands, but nobody waits for it."""
        del self._callers[caller.number]
        caller.close()
        if caller.vigil is not None:
            self._engine.give_up(caller.vigil)
        for worker_id in caller.workers:
            self._engine.hung_up(worker_id)

    def _hear(self, caller: Caller) -> None:
        try:
            frame = caller.receive()
        except BlockingIOError:  # there is more to come
            return
        except OSError:
            frame = None
        if frame is None:
            self._hang_up(caller)
            return
        try:
            self._take(caller, wire.decode_request(frame))
        except Exception as error:  # noqa: BLE001 - handed to the caller, typed
            caller.answer(wire.encode_error(error))

    # -- requests -------------------------------------------------------------------------------------------------

    def _take(self, caller: Caller, request: c.Command[Any] | Question[Any]) -> None:
        if isinstance(request, Work):
            caller.workers.add(request.worker_id)
            said = Said(request)
            self._tickets.append((caller, said))
            if request.words:
                self._speaking.add(caller.number)
            self._keep(caller, Listening(said), request.within or None)
        elif isinstance(request, c.Command):
            self._tickets.append((caller, Ticket(request)))
        elif isinstance(request, WaitLease):
            job_id = request.job_id
            self._keep(caller, Awaited(lambda state: external_lease(state, job_id)), request.within, _lease)
        elif isinstance(request, wire.WaitEnd):
            self._wait_end(caller, request)
        elif isinstance(request, _OUTSIDE):
            self._look_up_beside(caller, request)
        else:
            caller.answer(wire.encode_reply(self._engine.ask(request)))

    def _wait_end(self, caller: Caller, request: wire.WaitEnd) -> None:
        job_id = request.job_id
        if self._engine.read(lambda state: job_id in state.jobs):
            self._keep(caller, Awaited(lambda state: ended(state, job_id)), request.within, bool)
        else:  # memory may have forgotten it
            self._look_up_beside(caller, request)

    def _keep(
        self,
        caller: Caller,
        vigil: Vigil[Any],
        within: float | None,
        said: Callable[[Any], object] = lambda reply: reply,
    ) -> None:
        """Have somebody wait so many seconds at most; with none, the answer is there after this round."""
        vigil.on_over = lambda: caller.answer(_encoded(vigil, said(vigil.reply)))
        caller.vigil = vigil
        self._vigils.append(vigil)
        if within is not None:
            until = self._engine.clock.now() + round(within * 1000)
            heapq.heappush(self._due, (until, next(self._numbers), caller, vigil))

    def _patience(self) -> float | None:
        return max(0.0, (self._due[0][0] - self._engine.clock.now()) / 1000) if self._due else None

    def _give_up(self) -> None:
        while self._due and self._due[0][0] <= self._engine.clock.now():
            _, _, caller, vigil = heapq.heappop(self._due)
            if caller.vigil is vigil and self._engine.give_up(vigil):
                vigil.on_over()

    def _look_up_beside(self, caller: Caller, request: Question[Any]) -> None:
        try:
            self._readers.submit(self._look_up, caller, request)
        except RuntimeError:  # the main thread has ended, which ends every pool; others may work here for hours yet
            self._look_up(caller, request)

    def _look_up(self, caller: Caller, request: Question[Any]) -> None:
        try:
            frame = wire.encode_reply(self._find(request))
        except Exception as error:  # noqa: BLE001 - handed to the caller, typed
            frame = wire.encode_error(error)
        caller.answer(frame)

    def _find(self, request: Question[Any]) -> object:
        if isinstance(request, wire.Compact):
            return self._engine.compact(request.retention)
        if isinstance(request, wire.WaitEnd):
            return self._engine.wait_end(request.job_id, 0.0)
        return self._engine.ask(request)


def _encoded(kept: Pending[Any] | Vigil[Any], reply: object) -> bytes:
    return wire.encode_reply(reply) if kept.error is None else wire.encode_error(kept.error)


def _lease(found: object) -> Lease | None:
    """An external job has a lease, or has ended without one."""
    return found if isinstance(found, Lease) else None
