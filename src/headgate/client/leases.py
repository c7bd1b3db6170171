"""Leases for work that the caller does itself: granted when there is room, renewed by a thread of their own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from headgate.client.connection import Connection
from headgate.client.errors import ConnectionFailed, LeaseLost, ResultTimeout
from headgate.client.hops import Hop, finish
from headgate.core.errors import HeadgateError, StaleLease
from headgate.ports import Clock
from headgate.wire.http import LeaseOut

_log = logging.getLogger(__name__)
_SLICE = 1.0


class HeldLease:
    """A lease in hand. It is renewed at a third of its time, whatever the work does."""

    def __init__(self, lease: LeaseOut, connection: Connection, clock: Clock) -> None:
        self.id = lease.lease_id
        self.job_id = lease.job_id
        self.units = lease.capacity_units
        self.let_go_by: float | None = None
        """When set, room is needed: the holder should be done by then (seconds since 1970)."""
        self._lease = lease
        self._connection = connection
        self._clock = clock
        self._ttl = round(lease.ttl * 1000)
        self._sure_until = clock.now() + self._ttl
        self._over = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="headgate-lease", daemon=True)

    @property
    def lost(self) -> bool:
        """Whether the lease is over, or can no longer be known to hold."""
        return self._over.is_set() or (not self._done.is_set() and self._clock.now() >= self._sure_until)

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is over."""
        if self.lost:
            raise LeaseLost(f"the lease on {self.units} units is over: stop the work", lease_id=self.id)

    def keep(self) -> None:
        """Begin to renew it."""
        asked_at = self._clock.now()
        self._connection.start(self._lease)
        self._sure_until = asked_at + self._ttl
        self._thread.start()

    def _renew(self) -> None:
        wait = self._ttl / 3000
        while not self._done.wait(wait):
            asked_at = self._clock.now()
            try:
                beat = self._connection.beat(self._lease)
            except StaleLease:
                self._over.set()
                return
            except HeadgateError as error:
                _log.warning("lease %s could not be renewed: %s", self.id, error)
                wait = min(1.0, self._ttl / 10_000)
                continue
            if beat.stale:
                self._over.set()
                return
            wait = self._ttl / 3000
            self._sure_until = asked_at + self._ttl
            self.let_go_by = beat.let_go_by

    def settle(self, error: BaseException | None) -> None:
        """Say how the work went and let go."""
        was_lost = self.lost
        self._done.set()
        try:
            if error is None:
                self._connection.complete(self._lease, b"null")
            else:
                self._connection.fail(self._lease, type(error).__name__, str(error)[:2_000])
        except StaleLease as stale:
            if error is None:
                raise LeaseLost(f"the lease on {self.units} units was lost meanwhile", lease_id=self.id) from stale
        except ConnectionFailed:
            if error is None and not was_lost:
                raise
        finally:
            if self._thread.is_alive():
                self._thread.join()


class AsyncLeaseRequest:
    """`async with app.aio.lease(...) as lease:`."""

    def __init__(
        self, job: Mapping[str, Any], timeout: float | None, connection: Connection, hop: Hop, clock: Clock
    ) -> None:
        self._job = job
        self._timeout = timeout
        self._connection = connection
        self._hop = hop
        self._clock = clock
        self._held: HeldLease | None = None

    async def acquire(self) -> HeldLease:
        """Wait until there is room."""
        (job_id,) = await self._hop(self._connection.submit, [self._job])
        try:
            lease = await self._wait(job_id)
            self._held = HeldLease(lease, self._connection, self._clock)
            await self._hop(self._held.keep)
        except BaseException:
            await self._hop(self._connection.cancel, job_id, "the submitter no longer waits")
            raise
        return self._held

    async def _wait(self, job_id: str) -> LeaseOut:
        left = self._timeout
        while True:
            within = _SLICE if left is None else max(0.0, min(_SLICE, left))
            lease = await self._hop(self._connection.claim, job_id, within)
            if lease is not None:
                return lease
            job = await self._hop(self._connection.job, job_id)
            if job.ended_at is not None:
                raise LeaseLost(f"the request for a lease is {job.state}", job_id=job_id)
            if left is not None:
                left -= within
                if left <= 0:
                    found = await self._hop(self._connection.explain, job_id)
                    because = "; ".join(str(reason.get("detail")) for reason in found.reasons)
                    raise ResultTimeout(f"no lease within {self._timeout:g} s: {because}", job_id=job_id)

    async def __aenter__(self) -> HeldLease:
        return await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held is not None:
            await self._hop(self._held.settle, error)


class LeaseRequest:
    """`with app.lease(...) as lease:`."""

    def __init__(self, twin: AsyncLeaseRequest) -> None:
        self._twin = twin

    def __enter__(self) -> HeldLease:
        return finish(self._twin.acquire())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        finish(self._twin.__aexit__(kind, error, trace))
