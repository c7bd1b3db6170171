"""The last word on a run: what is on the disk against everything anybody was told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.states import JobState
from headgate.engine.replay import differences, replay
from headgate.ports import EndRow
from headgate.testing.simulation.disk import SimDisk
from headgate.testing.simulation.forgetting import read_spec
from headgate.testing.simulation.history import History
from headgate.testing.simulation.world import Violation


def check_run(disk: SimDisk, history: History) -> None:
    """Raise `Violation` for the first rule that does not hold."""
    story = Story(disk)
    story.read()
    _nothing_lost(disk, history)
    for command, reply in history.accepted:
        _stood_by(story, command, reply)
    _every_job_ends(disk)
    _journal_rebuilds(disk)


class Story:
    """The journal read from the beginning, each event against what came before it."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        rows = (*disk.forgetting.rows(), *disk.tables.jobs.values())
        self.specs = {row.id: read_spec(row.spec) for row in rows}
        self.leases: dict[str, e.LeaseGranted] = {}
        self.started: set[str] = set()
        self.settled: dict[str, e.Event] = {}
        self.patches: set[str] = set()
        self.tenants: list[Any] = []
        self.ends: dict[str, JobState] = {}
        self._holder: dict[str, str] = {}
        self._token = 0

    def read(self) -> None:
        """Read it all."""
        tell = _TELL
        for row in self.disk.told:
            for event in e.decode(row.events):
                teller = tell.get(type(event))
                if teller is not None:
                    teller(self, event)

    def submitted(self, event: e.JobSubmitted) -> None:
        if event.id in self.disk.forgetting.reborn:
            self.ends.pop(event.id, None)

    def granted(self, event: e.LeaseGranted) -> None:
        self._alive(event.job_id, event)
        if event.job_id in self._holder:
            raise Violation(f"job {event.job_id} was granted {event.lease_id} while {self._holder[event.job_id]} lived")
        if event.token <= self._token:
            raise Violation(f"token {event.token} came after {self._token}")
        spec = self.specs[event.job_id]
        if event.attempt > spec.kind.retry.attempts:
            raise Violation(f"job {event.job_id} is tried for the {event.attempt}th time")
        for dependency in spec.dependencies:
            ended = self.ends.get(dependency)
            if ended is None or (ended is not JobState.COMPLETED and spec.kind.on_dependency_failure == "fail"):
                raise Violation(f"job {event.job_id} was granted a lease while {dependency} is {ended or 'not ended'}")
        self._token = event.token
        self.leases[event.lease_id] = event
        self._holder[event.job_id] = event.lease_id

    def start(self, event: e.JobStarted) -> None:
        self._holds(event.job_id, event.lease_id, event)
        self.started.add(event.lease_id)

    def settle(self, event: e.JobCompleted | e.AttemptFailed | e.LeaseExpired | e.LeaseReleased) -> None:
        self._holds(event.job_id, event.lease_id, event)
        del self._holder[event.job_id]
        self.settled[event.lease_id] = event
        if isinstance(event, e.JobCompleted):
            self.ends[event.job_id] = JobState.COMPLETED
        elif isinstance(event, e.AttemptFailed) and event.retry_at is None:
            self.ends[event.job_id] = JobState.FAILED
        elif isinstance(event, e.LeaseExpired) and event.retry_at is None:
            self.ends[event.job_id] = JobState.EXPIRED

    def end(self, event: e.JobCancelled | e.DeadlineMissed | e.DependencyFailed) -> None:
        self._alive(event.id, event)
        if not isinstance(event, e.JobCancelled) and event.id in self._holder:
            raise Violation(f"{event} although a lease is live")
        self._holder.pop(event.id, None)
        kinds = {e.JobCancelled: JobState.CANCELLED, e.DeadlineMissed: JobState.EXPIRED}
        self.ends[event.id] = kinds.get(type(event), JobState.FAILED)

    def patch(self, event: e.JobPatched) -> None:
        self._alive(event.id, event)
        self.patches.update(value for name, value in event.kind.labels if name == "patch")

    def tenant(self, event: e.TenantSet) -> None:
        self.tenants.append(event.spec)

    def end_of(self, job_id: str) -> EndRow | None:
        """The row of a job's end, also where it was deleted since."""
        seq = self.disk.ids.get(job_id)
        if seq is not None:
            return self.disk.tables.ends.get(seq)
        return next((end for row, end in self.disk.forgetting.deleted.values() if row.id == job_id), None)

    def _alive(self, job_id: str, event: e.Event) -> None:
        if job_id in self.ends:
            raise Violation(f"{event} although the job had {self.ends[job_id]}")

    def _holds(self, job_id: str, lease_id: str, event: e.Event) -> None:
        if self._holder.get(job_id) != lease_id:
            raise Violation(f"{event} although the job's lease is {self._holder.get(job_id)}")


_TELL: dict[type[e.Event], Callable[[Story, Any], None]] = {
    e.JobSubmitted: Story.submitted,
    e.LeaseGranted: Story.granted,
    e.JobStarted: Story.start,
    e.JobCompleted: Story.settle,
    e.AttemptFailed: Story.settle,
    e.LeaseExpired: Story.settle,
    e.LeaseReleased: Story.settle,
    e.JobCancelled: Story.end,
    e.DeadlineMissed: Story.end,
    e.DependencyFailed: Story.end,
    e.JobPatched: Story.patch,
    e.TenantSet: Story.tenant,
}


def _nothing_lost(disk: SimDisk, history: History) -> None:
    lost = sorted(history.present - disk.ids.keys() - {row.id for row in disk.forgetting.rows()})
    if lost:
        raise Violation(f"{len(lost)} acknowledged jobs are lost, {lost[0]} among them")
    keys: dict[tuple[str, str], str] = {}
    for row in disk.tables.jobs.values():
        if row.key is not None and keys.setdefault((row.tenant, row.key), row.id) != row.id:
            raise Violation(f"jobs {keys[row.tenant, row.key]} and {row.id} share the key {row.key}")


def _stood_by(story: Story, command: c.Command[Any], reply: Any) -> None:
    """What was acknowledged is on the disk."""
    match command:
        case c.Submit():
            _submitted(story, command, reply)
        case c.Complete() | c.Fail() | c.Release() | c.Start():
            if not _recorded(story, command):
                raise Violation(f"{command} was acknowledged; the journal says {story.settled.get(command.lease_id)}")
            if story.leases[command.lease_id].token != command.token:
                raise Violation(f"{command} was accepted with a token that is not the lease's own")
            if isinstance(command, c.Complete):
                _completed(story, command)
        case c.Cancel():
            reborn = command.job_id in story.disk.forgetting.reborn
            if story.ends.get(command.job_id) is not JobState.CANCELLED and not reborn:
                raise Violation(f"{command} was acknowledged; the job {story.ends.get(command.job_id)}")
        case c.Patch() | c.SetTenant():
            if not _kept(story, command):
                raise Violation(f"{command} was acknowledged and is lost")


def _recorded(story: Story, command: c.Complete | c.Fail | c.Release | c.Start) -> bool:
    event = story.settled.get(command.lease_id)
    match command:
        case c.Start():
            return command.lease_id in story.started
        case c.Complete():
            return isinstance(event, e.JobCompleted)
        case c.Fail():
            return isinstance(event, e.AttemptFailed) and event.failure == command.failure
        case c.Release():
            return isinstance(event, e.LeaseReleased)


def _kept(story: Story, command: c.Patch | c.SetTenant) -> bool:
    if isinstance(command, c.SetTenant):
        return command.spec in story.tenants
    return all(value in story.patches for _, value in command.labels or ())


def _submitted(story: Story, command: c.Submit, reply: c.Submitted) -> None:
    disk = story.disk
    for new, job_id in zip(command.jobs, reply.ids, strict=True):
        if story.specs[job_id] != new.spec:
            raise Violation(f"job {job_id} is not as it was submitted")
        key = new.spec.idempotency_key
        if job_id in disk.ids and key is not None and disk.keys[new.spec.kind.tenant, key] != disk.ids[job_id]:
            raise Violation(f"key {key} belongs to another job than {job_id}")


def _completed(story: Story, command: c.Complete) -> None:
    job_id = story.leases[command.lease_id].job_id
    if job_id in story.disk.forgetting.reborn:
        return
    end = story.end_of(job_id)
    if end is None or (end.state, end.result, end.token) != ("completed", command.result, command.token):
        raise Violation(f"{command} was acknowledged; the disk holds {end}")


def _every_job_ends(disk: SimDisk) -> None:
    for seq, row in disk.tables.jobs.items():
        if seq not in disk.tables.ends:
            raise Violation(f"job {row.id} has not ended: {disk.view(seq)}")
    if disk.tables.leases or disk.tables.statuses:
        raise Violation("rows of live jobs are left although every job has ended")


def _journal_rebuilds(disk: SimDisk) -> None:
    for base in disk.snapshots:
        journal = [row for row in disk.told if row.number > base.mark.number]
        rebuilt = disk.forgetting.without_deleted(replay(base, journal, disk.tables))
        found = differences(rebuilt, disk.tables)
        if found:
            raise Violation(f"replay from commit {base.mark.number}: {found[0]}")
