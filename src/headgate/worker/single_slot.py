"""The single slot: one job at a time, and everybody can see how far it is.

    Pending -> Executing -> Completed
                        `-> Failed

A new job is taken once the one before has completed or failed; `clear` empties the slot from there and nowhere else.
"""

from __future__ import annotations

import threading
from enum import StrEnum

from headgate.core.errors import IllegalTransition, InvalidInput, JobNotFound, WorkerBusy


class SlotState(StrEnum):
    """Where the job in the slot is: the worker's view of leased, running, completed and failed."""

    PENDING = "Pending"
    EXECUTING = "Executing"
    COMPLETED = "Completed"
    FAILED = "Failed"


_ENDED = (SlotState.COMPLETED, SlotState.FAILED)


class SingleSlot:
    """Safe to use from several threads: every step is one step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._job_id: str | None = None
        self._state = SlotState.PENDING

    def schedule(self, job_id: str) -> None:
        """Take a job; `WorkerBusy` while another is pending or executing."""
        _check_id(job_id)
        with self._lock:
            if not self._free():
                raise WorkerBusy(f"job {self._job_id!r} is {self._state}", job_id=self._job_id)
            self._job_id, self._state = job_id, SlotState.PENDING

    def mark_executing(self, job_id: str) -> None:
        """The job begins."""
        self._step(job_id, SlotState.PENDING, SlotState.EXECUTING)

    def mark_completed(self, job_id: str) -> None:
        """The job is done."""
        self._step(job_id, SlotState.EXECUTING, SlotState.COMPLETED)

    def mark_failed(self, job_id: str) -> None:
        """The job has failed."""
        self._step(job_id, SlotState.EXECUTING, SlotState.FAILED)

    def can_accept(self) -> bool:
        """Whether a job would be taken now."""
        with self._lock:
            return self._free()

    def get_state(self, job_id: str) -> SlotState:
        """Where the job is; `JobNotFound` if it is not the one in the slot."""
        with self._lock:
            self._check(job_id)
            return self._state

    def clear(self) -> None:
        """Empty the slot if its job has ended; otherwise nothing happens."""
        with self._lock:
            if self._state in _ENDED:
                self._job_id, self._state = None, SlotState.PENDING

    def _free(self) -> bool:
        return self._job_id is None or self._state in _ENDED

    def _check(self, job_id: str) -> None:
        if self._job_id is None or job_id != self._job_id:
            raise JobNotFound(f"job {job_id!r} is not in the slot", job_id=job_id)

    def _step(self, job_id: str, before: SlotState, after: SlotState) -> None:
        with self._lock:
            self._check(job_id)
            if self._state is not before:
                trigger = f"become {after}"
                raise IllegalTransition(f"a {self._state} job cannot {trigger}", state=self._state, trigger=trigger)
            self._state = after


def _check_id(job_id: object) -> None:
    if not isinstance(job_id, str) or not job_id:
        raise InvalidInput("must be a non-empty string", field="job_id")
