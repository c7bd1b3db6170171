"""Leases on their way to workers: granted and durable, not yet handed over; and the word to stop those that are over.

A worker has one outbox, whether it listens on a stream or polls. What is in it came from committed events only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.lease import Lease
from headgate.core.states import JobState
from headgate.engine.aio import AsyncEngine
from headgate.wire.stream import Stop


class Listener(Protocol):
    """A stream as the outbox sees it."""

    def push(self) -> None:
        """There is something to send. Called as soon as it is durable, in the turn of the commit."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """End it."""
        ...


class Outbox:
    """What is waiting for one worker."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.live: dict[str, None] = {}
        """Its durable live leases."""
        self.pending: deque[str] = deque()
        """Those it has not been given."""
        self.stops: list[Stop] = []
        self.leave: str | None = None
        """Why the worker has to leave, until it has or may stay after all."""
        self.listener: Listener | None = None
        self.pollers: deque[asyncio.Future[str]] = deque()

    def hand_out(self) -> None:
        """Give what is pending to whoever waits for it."""
        while self.pending and self.pollers:
            poller = self.pollers.popleft()
            if not poller.done():
                poller.set_result(self.pending.popleft())
        if self.listener is not None and (self.pending or self.stops or self.leave is not None):
            self.listener.push()

    def next(self) -> str | None:
        """A lease that nobody was given yet."""
        return self.pending.popleft() if self.pending else None

    @property
    def idle(self) -> bool:
        """Whether it can be forgotten."""
        return not (self.live or self.pollers or self.listener or self.leave is not None)


class Deliveries:
    """All outboxes."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._outboxes: dict[str, Outbox] = {}
        self._lease_of: dict[str, str] = {}
        self._worker_of: dict[str, str | None] = {}
        self._touched: set[Outbox] = set()
        self._claimants: dict[str, list[asyncio.Event]] = {}
        self.handlers: dict[type[e.Event], Callable[[Any], None]] = {
            e.LeaseGranted: self._granted,
            e.JobCompleted: self._ended,
            e.AttemptFailed: self._failed,
            e.LeaseExpired: self._expired,
            e.LeaseReleased: self._released,
            e.JobCancelled: self._cancelled,
            e.DeadlineMissed: self._cancelled,
            e.DependencyFailed: self._cancelled,
            e.PreemptionAsked: self._preempted,
            e.WorkerEvicted: self._evicted,
            e.WorkerChanged: self._changed,
            e.WorkerRemoved: self._stays_or_left,
        }

    # -- what the engine tells ----------------------------------------------------------------------------------

    def restart(self) -> None:
        """Take over the leases as they stand."""
        self._lease_of.clear()
        self._worker_of.clear()
        for outbox in self._outboxes.values():
            outbox.live.clear()
            outbox.pending.clear()
            self._touched.add(outbox)
        state = self._engine.writer.state
        for lease in state.leases.values():
            self._note(lease.id, lease.job_id, lease.worker_id, fresh=state.jobs[lease.job_id].state is JobState.LEASED)
        self.settle()

    def settle(self, events: Sequence[e.Event] = ()) -> None:  # noqa: ARG002 - each was handed over already
        """Hand out what a commit brought."""
        for outbox in self._touched:
            outbox.hand_out()
            if outbox.idle:
                self._outboxes.pop(outbox.worker_id, None)
        self._touched.clear()

    def _granted(self, event: e.LeaseGranted) -> None:
        self._note(event.lease_id, event.job_id, event.worker_id, fresh=True)

    def _note(self, lease_id: str, job_id: str, worker_id: str | None, *, fresh: bool) -> None:
        self._lease_of[job_id] = lease_id
        self._worker_of[lease_id] = worker_id
        if worker_id is None:
            self._wake_claimants(job_id)
            return
        outbox = self.of(worker_id)
        outbox.live[lease_id] = None
        if fresh:
            outbox.pending.append(lease_id)
            self._touched.add(outbox)

    def _over(self, job_id: str, lease_id: str, reason: str = "") -> None:
        self._lease_of.pop(job_id, None)
        worker_id = self._worker_of.pop(lease_id, None)
        self._wake_claimants(job_id)
        outbox = None if worker_id is None else self._outboxes.get(worker_id)
        if outbox is None:
            return
        outbox.live.pop(lease_id, None)
        self._touched.add(outbox)
        if lease_id in outbox.pending:
            outbox.pending.remove(lease_id)
        elif reason and outbox.listener is not None:
            outbox.stops.append(Stop(lease_id, reason))

    def _ended(self, event: e.JobCompleted) -> None:
        self._over(event.job_id, event.lease_id)

    def _failed(self, event: e.AttemptFailed) -> None:
        self._over(event.job_id, event.lease_id, "timeout" if event.failure.code == "timeout" else "")

    def _expired(self, event: e.LeaseExpired) -> None:
        self._over(event.job_id, event.lease_id, "expired")

    def _released(self, event: e.LeaseReleased) -> None:
        self._over(event.job_id, event.lease_id, "preempted" if event.cause == "preempt" else "")

    def _cancelled(self, event: e.JobCancelled | e.DeadlineMissed | e.DependencyFailed) -> None:
        lease_id = self._lease_of.get(event.id)
        if lease_id is None:
            self._wake_claimants(event.id)
        else:
            self._over(event.id, lease_id, "cancelled")

    def _preempted(self, event: e.PreemptionAsked) -> None:
        outbox = self._outboxes.get(self._worker_of.get(event.lease_id) or "")
        if outbox is not None and outbox.listener is not None:
            outbox.stops.append(Stop(event.lease_id, "preempted", event.fence_at / 1000))
            self._touched.add(outbox)

    def _evicted(self, event: e.WorkerEvicted) -> None:
        outbox = self.of(event.id)
        outbox.leave = event.reason or "it was evicted"
        self._touched.add(outbox)

    def _changed(self, event: e.WorkerChanged) -> None:
        if event.status == "ready":
            self._stays_or_left(event)

    def _stays_or_left(self, event: e.WorkerChanged | e.WorkerRemoved) -> None:
        outbox = self._outboxes.get(event.id)
        if outbox is not None and outbox.leave is not None:
            outbox.leave = None
            self._touched.add(outbox)

    # -- what workers ask ---------------------------------------------------------------------------------------

    def of(self, worker_id: str) -> Outbox:
        """The outbox of a worker."""
        outbox = self._outboxes.get(worker_id)
        if outbox is None:
            outbox = self._outboxes[worker_id] = Outbox(worker_id)
        return outbox

    def listens(self, worker_id: str) -> bool:
        """Whether a worker has a stream."""
        outbox = self._outboxes.get(worker_id)
        return outbox is not None and outbox.listener is not None

    def has_to_leave(self, worker_id: str | None) -> bool:
        """Whether a worker was evicted and is still there."""
        outbox = None if worker_id is None else self._outboxes.get(worker_id)
        return outbox is not None and outbox.leave is not None

    async def attach(self, outbox: Outbox, listener: Listener) -> None:
        """Let a stream take what is there. What was delivered and never started comes again."""
        before, outbox.listener = outbox.listener, listener
        outbox.stops.clear()
        self._redeliver(outbox)
        if before is not None:
            await before.close(4409, "another stream of this worker has come")

    def detach(self, outbox: Outbox, listener: Listener) -> bool:
        """The stream has ended; whether it was the present one."""
        if outbox.listener is not listener:
            return False
        outbox.listener = None
        self._redeliver(outbox)
        return True

    def _redeliver(self, outbox: Outbox) -> None:
        state = self._engine.writer.state
        leases = [lease for lease_id in outbox.live if (lease := state.leases.get(lease_id)) is not None]
        waiting = [lease.id for lease in leases if state.jobs[lease.job_id].state is JobState.LEASED]
        outbox.pending = deque(waiting)
        outbox.hand_out()

    async def stop(self) -> None:
        """End every stream."""
        for outbox in list(self._outboxes.values()):
            if outbox.listener is not None:
                await outbox.listener.close(1012, "the server is going down")
            for poller in outbox.pollers:
                poller.cancel()
        for job_id in self._claimants:
            self._wake_claimants(job_id)

    # -- polling ------------------------------------------------------------------------------------------------

    def wanted(self, outbox: Outbox) -> int:
        """How many leases the pollers of a worker still lack, beside those on their way."""
        worker = self._engine.writer.state.workers.get(outbox.worker_id)
        on_the_way = 0 if worker is None else sum(1 for lease_id in worker.leases if lease_id not in outbox.live)
        waiting = sum(1 for poller in outbox.pollers if not poller.done())
        return max(0, waiting - on_the_way - len(outbox.pending))

    async def poll(self, worker_id: str, wait_s: float, gone: asyncio.Future[None]) -> Lease | None:
        """A lease for a pulling worker, waiting for one if need be; none if there is none in time."""
        outbox = self.of(worker_id)
        ready = outbox.next()
        if ready is None:
            ready = await self._wait(outbox, wait_s, gone)
        return None if ready is None else self._engine.writer.state.leases.get(ready)

    async def _wait(self, outbox: Outbox, wait_s: float, gone: asyncio.Future[None]) -> str | None:
        poller: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        outbox.pollers.append(poller)
        try:
            await self._engine.do(c.Claim(outbox.worker_id, self.wanted(outbox)))
            await _first(poller, gone, wait_s)
        finally:
            if poller in outbox.pollers:
                outbox.pollers.remove(poller)
        if not poller.done():
            await self._engine.do(c.Claim(outbox.worker_id, self.wanted(outbox)))
            return outbox.next()
        return None if poller.cancelled() else poller.result()

    # -- external jobs ------------------------------------------------------------------------------------------

    def leased(self, job_id: str) -> str | None:
        """The durable lease of a job."""
        return self._lease_of.get(job_id)

    async def wait_for_job(self, job_id: str, wait_s: float, gone: asyncio.Future[None]) -> None:
        """Wait until a job gets a lease, or ends."""
        changed = asyncio.Event()
        self._claimants.setdefault(job_id, []).append(changed)
        waiting = asyncio.ensure_future(changed.wait())
        try:
            await _first(waiting, gone, wait_s)
        finally:
            waiting.cancel()
            others = [other for other in self._claimants.pop(job_id, []) if other is not changed]
            if others:
                self._claimants[job_id] = others

    def _wake_claimants(self, job_id: str) -> None:
        for changed in self._claimants.get(job_id, ()):
            changed.set()


async def _first(one: asyncio.Future[Any], other: asyncio.Future[Any], within: float) -> None:
    """Wait for either, or until the time is up."""
    await asyncio.wait({one, other}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
