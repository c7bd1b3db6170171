"""The fast path of workers: leases are pushed as they become durable; words and heartbeats come in batches."""

from __future__ import annotations

import asyncio
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
BAD_MESSAGE, NOT_REGISTERED = 4400, 4404


class Stream:
    """One worker's connection."""

    def __init__(self, service: Service, socket: Socket, worker_id: str) -> None:
        self._service = service
        self._engine = service.engine
        self._socket = socket
        self._worker_id = worker_id
        self._news = asyncio.Event()
        self._told_to_leave = False
        self._heard = 0
        """The highest ref of the worker's messages."""
        self._wording = Wording(service.engine, service.settings.max_log)

    def wake(self) -> None:
        """There is something to send."""
        self._news.set()

    async def close(self, code: int, reason: str) -> None:
        """End it."""
        await self._socket.close(code, reason)

    async def serve(self) -> None:
        """Until the worker hangs up."""
        await self._listens()
        outbox = await self._service.deliveries.attach(self._worker_id, self)
        pushing = asyncio.create_task(self._push(outbox))
        try:
            await self._read(outbox)
        finally:
            pushing.cancel()
            if self._service.deliveries.detach(outbox, self):
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

    async def _push(self, outbox: Outbox) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                stops, outbox.stops = outbox.stops, []
                for stop in stops:
                    await self._socket.send(stop)
                if outbox.leave is not None and not self._told_to_leave:
                    self._told_to_leave = True
                    await self._socket.send(m.Leave(outbox.leave))
                await self._grant_all(outbox)
        except ClientGone:
            await self._socket.close(1008, "too slow")
        except Exception:
            self._service.log.exception("bug", call="worker_stream")
            await self._socket.close(1011, "something went wrong in the server")

    async def _grant_all(self, outbox: Outbox) -> None:
        while outbox.pending:
            await self._grant(outbox)

    async def _grant(self, outbox: Outbox) -> None:
        state = self._service.state
        leases: list[LeaseOut] = []
        jobs: list[JobOut] = []
        while outbox.pending and len(leases) < MOST_AT_ONCE:
            lease = state.leases.get(outbox.pending.popleft())
            if lease is not None:
                leases.append(views.lease_out(lease))
                jobs.append(views.live_job_out(state.jobs[lease.job_id]))
        if leases:
            await self._socket.send(m.Granted(leases, jobs, self._heard, self._engine.clock.now() / 1000))

    # -- from the worker ----------------------------------------------------------------------------------------

    async def _read(self, outbox: Outbox) -> None:
        while (frame := await self._socket.receive()) is not None:
            try:
                message: Any = strict.read_as(frame, m.WorkerMessage)  # type: ignore[arg-type]
            except InvalidInput as error:
                await self._socket.close(BAD_MESSAGE, str(error))
                return
            self._heard = max(self._heard, message.ref)
            try:
                answer = await self._answer(message)
                # Leases for which the words made room go first: the worker, woken by the answer, has work at once.
                await self._grant_all(outbox)
                await self._socket.send(answer)
            except ClientGone:
                return

    async def _answer(self, message: Any) -> msgspec.Struct:
        match message:
            case m.Words():
                return m.WordsDone(message.ref, await self._words(message.words))
            case m.Beats():
                return m.BeatsDone(message.ref, await self._beats(message.leases))
        reply = await self._engine.do_all([c.DrainWorker(self._worker_id, "the worker drains")])
        return m.WordsDone(message.ref, [_problem(reply[0])])

    async def _words(self, words: list[m.Word]) -> list[Problem | None]:
        """All words in one commit; one that makes no sense is refused by itself."""
        said: list[Said] = []
        places: list[int] = []
        problems: list[Problem | None] = [None] * len(words)
        for place, word in enumerate(words):
            try:
                said.append(self._said(word))
                places.append(place)
            except (InvalidInput, StaleLease) as error:
                problems[place] = problem_of(error)
        for place, reply in zip(places, await self._wording.say(said, self._worker_id), strict=True):
            problems[place] = _problem(reply)
        return problems

    def _said(self, word: m.Word) -> Said:
        if not self._may_be_ours(word.lease_id):
            raise StaleLease(f"lease {word.lease_id!r} is another worker's", lease_id=word.lease_id)
        return Said(command_of(word), word.log)

    async def _beats(self, leases: list[tuple[str, int]]) -> list[Any]:
        mine = tuple(beat for beat in leases if self._may_be_ours(beat[0]))
        commands: list[c.Command[Any]] = [c.WorkerBeat(self._worker_id), c.Heartbeats(mine)]
        seen, beats = await self._engine.do_all(commands)
        if isinstance(seen, WorkerNotFound):  # removed while it lives: hung up on, it registers anew
            await self._socket.close(NOT_REGISTERED, str(seen))
            raise ClientGone from seen
        if isinstance(beats, Exception):  # the engine does not serve: nothing was renewed
            raise ClientGone from beats
        known = {beat.lease_id: beat for beat in beats}
        return [views.beat_out(known.get(lease_id) or c.Beat(lease_id, stale=True)) for lease_id, _ in leases]

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
