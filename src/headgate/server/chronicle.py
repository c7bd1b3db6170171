"""What an operator wants to read in the log: the rare events, one line each. Jobs that go well are not among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.core import events as e


class Chronicle:
    """Writes committed events to the log, at the level they deserve."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.handlers: dict[type[e.Event], Callable[[Any], None]] = {
            e.LeaseExpired: self._lease_expired,
            e.DeadlineMissed: lambda event: log.warning("deadline-missed", job=event.id),
            e.PreemptionAsked: lambda event: log.info("preemption-asked", job=event.job_id, for_job=event.for_job),
            e.WorkerRegistered: lambda event: log.info("worker-registered", worker=event.spec.id, pool=event.spec.pool),
            e.WorkerChanged: self._worker_changed,
            e.WorkerRemoved: lambda event: log.info("worker-removed", worker=event.id),
            e.PoolChanged: self._pool_changed,
            e.RatingChanged: self._rating_changed,
        }

    def settle(self, events: Sequence[e.Event]) -> None:
        """Each event is a line of its own: nothing waits for the end of a commit."""

    def restart(self) -> None:
        """The engine loaded its state again."""
        self._log.info("following")

    def _lease_expired(self, event: e.LeaseExpired) -> None:
        again = event.retry_at is not None
        self._log.warning("lease-expired", job=event.job_id, lease=event.lease_id, runs_again=again)

    def _worker_changed(self, event: e.WorkerChanged) -> None:
        self._log.info("worker-changed", worker=event.id, status=event.status, reason=event.reason)

    def _pool_changed(self, event: e.PoolChanged) -> None:
        self._log.info("pool-changed", pool=event.id, status=event.status)

    def _rating_changed(self, event: e.RatingChanged) -> None:
        self._log.info("rating-changed", rating=event.rating, reasons=list(event.reasons))
