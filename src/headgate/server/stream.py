"""The fast path of workers: leases are pushed as they become durable; words and heartbeats come in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from headgate import views
from headgate.core import commands as c
from headgate.core.errors import HeadgateError, InvalidInput, StaleLease, WorkerNotFound
from headgate.server import strict
from headgate.server.deliveries import Outbox
from headgate.server.problems import ClientGone, problem_of
from headgate.server.routing import Routes, Urgency
from headgate.server.service import Service
from headgate.server.sockets import Socket
from headgate.server.wording import Said, Wording
from headgate.wire import stream as m
from headgate.wire.http import JobOut, LeaseOut, Problem
from headgate.wire.words import command_of

routes = Routes()
MOST_AT_ONCE = 1_000
"""Leases in one message."""
MOST_ASKED = 64
"""Messages of one worker that are carried out at once; further ones wait on the network."""
BAD_MESSAGE, NOT_REGISTERED, NOT_SERVING = 4400, 4404, 1013


class Stream:
    """One worker's connection."""

    def __init__(self, service: Service, socket: Socket, worker_id: str) -> None:
        self._service = service
        self._engine = service.engine
        self._socket = socket
        self._worker_id = worker_id
        self._told_to_leave = False
        self._outbox: Outbox
        self._answers: list[msgspec.Struct] = []
        """What is to be said to the worker's messages."""
        self._asked = 0
        """Messages that are not answered yet."""
        self._heard = 0
        """The highest ref of the worker's messages."""
        self._flushing = False
        """Whether answers that are there will be sent in the next turn of the loop."""
        self._held_up = asyncio.Event()
        """Something has to wait for the worker to read, or the stream is to end."""
        self._end: tuple[int, str] | None = None
        self._wording = Wording(service.engine, service.settings.max_log)

    async def close(self, code: int, reason: str) -> None:
        """End it."""
        await self._socket.close(code, reason)

    async def serve(self) -> None:
        """Until the worker hangs up."""
        await self._listens()
        self._outbox = self._service.deliveries.of(self._worker_id)
        await self._service.deliveries.attach(self._outbox, self)
        waiting = asyncio.create_task(self._wait_for_reader())
        self._socket.wire.taker = self._hear
        try:
            while (frame := await self._socket.receive()) is not None:  # what came before there was a taker
                self._hear(frame)
        finally:
            waiting.cancel()
            if self._service.deliveries.detach(self._outbox, self):
                await self._hung_up()

    async def _listens(self) -> None:
        """A worker on a stream is given work as it comes."""
        worker = self._engine.read(lambda state: state.worker(self._worker_id))
        if worker.status == "offline":
            await self._engine.do(c.WorkerBeat(worker.id))
        if worker.spec.pull and worker.status == "ready":
            await self._engine.do(c.RegisterWorker(msgspec.structs.replace(worker.spec, pull=False)))

    async def _hung_up(self) -> None:
        """Without a stream it can only pull: nothing is granted to a worker that cannot hear of it."""
        worker = self._service.state.workers.get(self._worker_id)
        if worker is None or worker.spec.pull or worker.status != "ready":
            return
        try:
            await self._engine.do(c.RegisterWorker(msgspec.structs.replace(worker.spec, pull=True)))
        except HeadgateError as error:
            self._service.log.info("worker-not-parked", worker=worker.id, problem=error.code)

    # -- to the worker ------------------------------------------------------------------------------------------

    def push(self) -> None:
        """There is something to send. Answers to the words that made room for it go with it, in one write."""
        with self._unharmed():  # the commit that brought it must not suffer
            self._flush()

    def _flush(self) -> None:
        try:
            while self._socket.wire.ready and (messages := self._messages()):
                self._socket.write(messages)
        except ClientGone:  # whoever reads hears of it, too; what was not delivered comes again
            return
        if not self._socket.wire.ready:
            self._held_up.set()

    def _messages(self) -> list[msgspec.Struct]:
        """What is to be sent next. Leases go before answers: a worker that is woken by an answer has work at once."""
        outbox = self._outbox
        messages: list[msgspec.Struct] = [*outbox.stops]
        outbox.stops.clear()
        if outbox.leave is not None and not self._told_to_leave:
            self._told_to_leave = True
            messages.append(m.Leave(outbox.leave))
        if outbox.pending:
            messages += self._grants(outbox)
        if not outbox.pending:
            messages += self._answers
            self._answers.clear()
        return messages

    def _grants(self, outbox: Outbox) -> list[m.Granted]:
        state = self._service.state
        leases: list[LeaseOut] = []
        jobs: list[JobOut] = []
        while outbox.pending and len(leases) < MOST_AT_ONCE:
            lease = state.leases.get(outbox.pending.popleft())
            if lease is not None:
                leases.append(views.lease_out(lease))
                jobs.append(views.live_job_out(state.jobs[lease.job_id]))
        return [m.Granted(leases, jobs, self._heard, self._engine.clock.now() / 1000)] if leases else []

    async def _wait_for_reader(self) -> None:
        """A worker that does not take what it is sent is cut off after a while; until then the rest waits."""
        try:
            while True:
                await self._held_up.wait()
                self._held_up.clear()
                if self._end is not None:
                    await self._socket.close(*self._end)
                    return
                await self._socket.drained()
                self._flush()
        except ClientGone as error:
            self._service.log.info("worker-too-slow", worker=self._worker_id, problem=str(error))

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        """A bug in here ends this stream, and nothing else."""
        try:
            yield
        except Exception:
            self._service.log.exception("bug", call="worker_stream")
            self._finish(1011, "something went wrong in the server")

    def _finish(self, code: int, reason: str) -> None:
        self._end = code, reason
        self._held_up.set()

    # -- from the worker ----------------------------------------------------------------------------------------

    def _hear(self, frame: bytes) -> None:
        if self._end is None:
            with self._unharmed():
                self._take(frame)

    def _take(self, frame: bytes) -> None:
        try:
            message: Any = strict.read_as(frame, m.WorkerMessage)  # type: ignore[arg-type]
        except InvalidInput as error:
            self._finish(BAD_MESSAGE, str(error))
            return
        self._heard = max(self._heard, message.ref)
        self._asked += 1
        if self._asked >= MOST_ASKED:
            self._socket.wire.hold()
        match message:
            case m.Words():
                self._words(message)
            case m.Beats():
                self._beats(message)
            case m.Drain():
                self._drain(message)

    def _answer(self, answer: msgspec.Struct) -> None:
        """An answer is durable. It is sent with the leases of the same commit, or else in the next turn of the loop."""
        self._asked -= 1
        if self._asked < MOST_ASKED:
            self._socket.wire.go_on()
        self._answers.append(answer)
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._push_answers)

    def _push_answers(self) -> None:
        self._flushing = False
        if self._answers:
            self.push()

    def _words(self, message: m.Words) -> None:
        """All words in one commit; one that makes no sense is refused by itself."""
        said: list[Said] = []
        places: list[int] = []
        problems: list[Problem | None] = [None] * len(message.words)
        for place, word in enumerate(message.words):
            try:
                said.append(self._said(word))
                places.append(place)
            except (InvalidInput, StaleLease) as error:
                problems[place] = problem_of(error)

        def done(replies: list[Any]) -> None:
            for place, reply in zip(places, replies, strict=True):
                problems[place] = _problem(reply)
            self._answer(m.WordsDone(message.ref, problems))

        self._wording.begin(said, self._worker_id, done)

    def _beats(self, message: m.Beats) -> None:
        mine = tuple(beat for beat in message.leases if self._may_be_ours(beat[0]))
        commands: list[c.Command[Any]] = [c.WorkerBeat(self._worker_id), c.Heartbeats(mine)]

        def done(replies: list[Any]) -> None:
            seen, beats = replies
            if isinstance(seen, WorkerNotFound):  # removed while it lives: hung up on, it registers anew
                self._finish(NOT_REGISTERED, str(seen))
            elif isinstance(beats, Exception):  # the engine does not serve: nothing was renewed
                self._finish(NOT_SERVING, str(beats))
            else:
                known = {beat.lease_id: beat for beat in beats}
                shown = [known.get(lease_id) or c.Beat(lease_id, stale=True) for lease_id, _ in message.leases]
                self._answer(m.BeatsDone(message.ref, [views.beat_out(beat) for beat in shown]))

        self._engine.begin_all(commands, done)

    def _drain(self, message: m.Drain) -> None:
        def done(replies: list[Any]) -> None:
            self._answer(m.WordsDone(message.ref, [_problem(replies[0])]))

        self._engine.begin_all([c.DrainWorker(self._worker_id, "the worker drains")], done)

    def _said(self, word: m.Word) -> Said:
        if not self._may_be_ours(word.lease_id):
            raise StaleLease(f"lease {word.lease_id!r} is another worker's", lease_id=word.lease_id)
        return Said(command_of(word), word.log)

    def _may_be_ours(self, lease_id: str) -> bool:
        """Whether a lease is not another worker's: on its stream a worker speaks for itself alone."""
        lease = self._service.state.leases.get(lease_id)
        return lease is None or lease.worker_id == self._worker_id


def _problem(reply: Any) -> Problem | None:
    return problem_of(reply) if isinstance(reply, Exception) else None


@routes.add("WS", "/v2/workers/{id}/stream", "work", urgency=Urgency.VITAL, tenants=False)
async def worker_stream(service: Service, socket: Socket) -> None:
    """The fast path of a worker: leases pushed, words and heartbeats batched."""
    worker_id = socket.params["id"]
    await socket.accept()
    if worker_id not in service.state.workers:
        await socket.close(NOT_REGISTERED, f"worker {worker_id} is not registered")
        return
    await Stream(service, socket, worker_id).serve()
