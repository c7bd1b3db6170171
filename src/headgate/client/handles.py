"""Handles on jobs: with `await` and without."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import msgspec

from headgate.client.connection import Connection
from headgate.client.errors import NothingCanRun, ResultTimeout, not_completed
from headgate.client.hops import Hop, finish
from headgate.wire.http import EventOut, ExplainOut, JobOut

ENDED = ("completed", "failed", "expired", "cancelled")
_SLICE = 1.0
_PATIENCE = 2.0
"""Seconds for which a worker may be on its way, before a job that nothing can run is called so."""
_LASTING = {"type", "pool", "label", "model", "status"}
_DEPTH = 5


class AsyncJobHandle:
    """A job, for coroutines."""

    def __init__(self, job_id: str, connection: Connection, hop: Hop) -> None:
        self.id = job_id
        self._connection = connection
        self._hop = hop

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def state(self) -> Coroutine[Any, Any, str]:
        """`blocked`, `queued`, `leased`, `running`, `completed`, `failed`, `expired` or `cancelled`."""
        return self._state()

    async def _state(self) -> str:
        return (await self.info()).state

    async def info(self) -> JobOut:
        """Everything that is known of the job."""
        return await self._hop(self._connection.job, self.id)

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - the contract names it so
        """Wait for the end and return what the job returned; raise `JobFailed`, `JobExpired` or `JobCancelled`.

        `ResultTimeout` says why it waits if it has not ended in time; without a timeout `NothingCanRun` is raised
        where no worker anywhere could run it.
        """
        await self._end(timeout)
        job = await self.info()
        if job.state != "completed":
            raise not_completed(job)
        return msgspec.json.decode(job.result)

    async def wait(self, timeout: float | None = None) -> str:  # noqa: ASYNC109 - as above
        """Wait for the end, however it ends; the state."""
        await self._end(timeout)
        return await self._state()

    async def _end(self, timeout: float | None) -> None:  # noqa: ASYNC109 - as above
        left, hopeless = timeout, 0.0
        while True:
            within = _SLICE if left is None else max(0.0, min(_SLICE, left))
            if await self._hop(self._connection.wait_end, self.id, within):
                return
            if left is not None:
                left -= within
                if left <= 0:
                    raise ResultTimeout(await self._why(f"has not ended within {timeout:g} s"), job_id=self.id)
            elif await self._hopeless(self.id, _DEPTH):
                hopeless += within
                if hopeless >= _PATIENCE:
                    raise NothingCanRun(await self._why("cannot run anywhere"), job_id=self.id)
            else:
                hopeless = 0.0

    async def _why(self, what: str) -> str:
        found = await self.explain()
        because = "; ".join(reason["detail"] for reason in found.reasons if "detail" in reason)
        return f"job {self.id} {what}; it is {found.state}" + (f": {because}" if because else "")

    async def _hopeless(self, job_id: str, depth: int) -> bool:
        """Whether nothing but more workers or units could make it run; who waits for such a job is no better off."""
        found = await self._hop(self._connection.explain, job_id)
        for reason in found.reasons:
            if reason["code"] == "no_fitting_worker" and set(reason.get("failing", {})) <= _LASTING:
                return True
            if reason["code"] == "never_starts":
                return True
            if reason["code"] == "blocked_by" and depth:
                return any([await self._hopeless(other, depth - 1) for other in reason.get("jobs", [])])
        return False

    async def cancel(self, reason: str = "") -> bool:
        """End the job, also while it runs; false if it had ended already."""
        if (await self._state()) in ENDED:
            return False
        await self._hop(self._connection.cancel, self.id, reason)
        return True

    async def events(self) -> list[EventOut]:
        """What happened to the job, oldest first."""
        return await self._hop(self._connection.events, self.id)

    async def explain(self) -> ExplainOut:
        """Why the job does not run."""
        return await self._hop(self._connection.explain, self.id)

    async def logs(self) -> str:
        """What the job printed, as far as it was kept."""
        return await self._hop(self._connection.logs, self.id)


class JobHandle:
    """A job. Its twin for coroutines is `AsyncJobHandle`."""

    def __init__(self, twin: AsyncJobHandle) -> None:
        self._twin = twin
        self.id = twin.id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def state(self) -> str:
        """`blocked`, `queued`, `leased`, `running`, `completed`, `failed`, `expired` or `cancelled`."""
        return finish(self._twin.state)

    def info(self) -> JobOut:
        """Everything that is known of the job."""
        return finish(self._twin.info())

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the end and return what the job returned; raise `JobFailed`, `JobExpired` or `JobCancelled`."""
        return finish(self._twin.result(timeout))

    def wait(self, timeout: float | None = None) -> str:
        """Wait for the end, however it ends; the state."""
        return finish(self._twin.wait(timeout))

    def cancel(self, reason: str = "") -> bool:
        """End the job, also while it runs; false if it had ended already."""
        return finish(self._twin.cancel(reason))

    def events(self) -> list[EventOut]:
        """What happened to the job, oldest first."""
        return finish(self._twin.events())

    def explain(self) -> ExplainOut:
        """Why the job does not run."""
        return finish(self._twin.explain())

    def logs(self) -> str:
        """What the job printed, as far as it was kept."""
        return finish(self._twin.logs())
