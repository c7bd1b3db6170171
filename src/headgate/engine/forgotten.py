"""What the core has forgotten and the store has not: how old jobs ended, their keys and their ids."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core import commands as c
from headgate.core.errors import DuplicateJob
from headgate.core.fingerprint import digest
from headgate.core.state import State
from headgate.core.states import JobState
from headgate.ports import Store


class Forgotten:
    """Looks back for whoever submits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._any = False
        self._to = ""
        """Ids sort by the time they were made: jobs with ids up to this one may be known to the store alone."""

    def note(self, ids: Iterable[str]) -> None:
        """The store may know jobs that the core does not, with ids up to the last of these."""
        self._any = True
        self._to = max(self._to, max(ids, default=""))

    def recall(self, command: c.Submit, state: State) -> c.Submit:
        """Tell the core what it needs of such jobs: of dependencies and of idempotency keys."""
        if not self._any:
            return command
        self._refuse_again(command, state)
        unknown = {d for job in command.jobs for d in job.spec.dependencies if d not in state.jobs}
        unknown -= {job.id for job in command.jobs}
        finished: dict[str, JobState] = self._store.states_of(unknown) if unknown else {}
        keys = self._keys(command, state)
        return c.Submit(command.jobs, finished, keys) if finished or keys else command

    def _keys(self, command: c.Submit, state: State) -> dict[str, tuple[str, bytes]]:
        wanted = {
            place
            for job in command.jobs
            if (key := job.spec.idempotency_key) is not None
            and (place := (job.spec.kind.tenant, key)) not in state.keys
        }
        found = self._store.find_keys(wanted) if wanted else {}
        return {c.key_name(tenant, key): (row.id, digest(row.spec)) for (tenant, key), row in found.items()}

    def _refuse_again(self, command: c.Submit, state: State) -> None:
        """A repeat of a job that the core has forgotten must not reach the store: it would refuse the whole group."""
        old = [job for job in command.jobs if job.id <= self._to and job.id not in state.jobs]
        unkeyed = [job.id for job in old if job.spec.idempotency_key is None]
        known = self._store.states_of(unkeyed) if unkeyed else {}
        if known:
            again = min(known)
            raise DuplicateJob(f"there is a job {again!r} already", job_id=again)
