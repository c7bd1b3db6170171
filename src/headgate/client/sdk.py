"""The SDK on a connection: `AsyncCalls` is the whole of it, `Calls` the same without `await`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headgate.client.connection import Connection
from headgate.client.functions import job_fields
from headgate.client.handles import AsyncJobHandle, JobHandle
from headgate.client.hops import Hop, finish
from headgate.client.leases import AsyncLeaseRequest, LeaseRequest
from headgate.ports import Clock
from headgate.wire.http import StatusOut


class AsyncCalls:
    """Everything that `app` can do, for coroutines."""

    def __init__(self, connect: Callable[[], Connection], hop: Hop, clock: Clock) -> None:
        self._connect = connect
        self._hop = hop
        self._clock = clock

    @property
    def _connection(self) -> Connection:
        """Opened when it is first needed: a module that only defines jobs opens nothing."""
        return self._connect()

    async def submit(self, job: Mapping[str, Any] | None = None, **fields: Any) -> AsyncJobHandle:
        """Submit one job: fields as in the reference of jobs, as a mapping or by name."""
        (handle,) = await self.submit_many([{**(job or {}), **fields}])
        return handle

    async def submit_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[AsyncJobHandle]:
        """Submit jobs, all or none."""
        ids = await self._hop(self._connection.submit, [job_fields(job) for job in jobs])
        return [AsyncJobHandle(job_id, self._connection, self._hop) for job_id in ids]

    async def get(self, job_id: str) -> AsyncJobHandle:
        """A handle on a job; `JobNotFound` if there is none."""
        await self._hop(self._connection.job, job_id)
        return AsyncJobHandle(job_id, self._connection, self._hop)

    async def patch(self, job_id: str, **changes: Any) -> None:
        """Change `priority`, `rank`, `labels` or `not_before` of a job that has not started."""
        await self._hop(self._connection.patch, job_id, changes)

    def lease(
        self, units: int = 1, *, priority: str | int = "normal", timeout: float | None = None, **fields: Any
    ) -> AsyncLeaseRequest:
        """A lease for work that the caller does itself: `async with app.aio.lease(units=20) as lease:`."""
        named = {"name": "lease", "type": "lease", **job_fields(fields)}
        job = {**named, "units": units, "priority": priority, "run": {"kind": "external"}}
        return AsyncLeaseRequest(job, timeout, self._connection, self._hop, self._clock)

    async def observe(self, latency_s: float | None = None, error: bool = False) -> None:
        """A request of the application has ended: how long it took, and whether it failed."""
        await self._hop(self._connection.observe, latency_s, error)

    async def status(self) -> StatusOut:
        """Busy rating, capacity, depth, workers."""
        return await self._hop(self._connection.status)


class Calls:
    """The same without `await`."""

    def __init__(self, twin: AsyncCalls) -> None:
        self._twin = twin

    def submit(self, job: Mapping[str, Any] | None = None, **fields: Any) -> JobHandle:
        """Submit one job: fields as in the reference of jobs, as a mapping or by name."""
        return JobHandle(finish(self._twin.submit(job, **fields)))

    def submit_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[JobHandle]:
        """Submit jobs, all or none."""
        return [JobHandle(handle) for handle in finish(self._twin.submit_many(jobs))]

    def get(self, job_id: str) -> JobHandle:
        """A handle on a job; `JobNotFound` if there is none."""
        return JobHandle(finish(self._twin.get(job_id)))

    def patch(self, job_id: str, **changes: Any) -> None:
        """Change `priority`, `rank`, `labels` or `not_before` of a job that has not started."""
        finish(self._twin.patch(job_id, **changes))

    def lease(
        self, units: int = 1, *, priority: str | int = "normal", timeout: float | None = None, **fields: Any
    ) -> LeaseRequest:
        """A lease for work that the caller does itself: blocks until there is room."""
        return LeaseRequest(self._twin.lease(units, priority=priority, timeout=timeout, **fields))

    def observe(self, latency_s: float | None = None, error: bool = False) -> None:
        """A request of the application has ended: how long it took, and whether it failed."""
        finish(self._twin.observe(latency_s, error))

    def status(self) -> StatusOut:
        """Busy rating, capacity, depth, workers."""
        return finish(self._twin.status())
