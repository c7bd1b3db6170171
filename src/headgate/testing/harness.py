"""The harness: core, policy and a manual clock in one place, every step checked and recorded.

h = Harness(total_units=40)
h.join(worker("w1", slots=2, memory="8GB"))
a = h.submit(job("a", units=20))
b = h.submit(job("b", units=20, after=[a]))
h.cycle()
h.holds("w1", [a])
h.run(a)
h.cycle()
h.holds("w1", [b])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from headgate.core import commands as c
from headgate.core.actions import Action, AnyReason, Dispatch, Refusal
from headgate.core.cluster import PoolReport, WorkerSpec
from headgate.core.decide import decide
from headgate.core.errors import HeadgateError, InvariantBroken
from headgate.core.events import Event, Failure
from headgate.core.explain import Explanation, explain
from headgate.core.job import JobSpec
from headgate.core.lease import Lease
from headgate.core.ordering import FirstFit, Policy
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.core.states import JobState
from headgate.core.tenants import TenantSpec
from headgate.core.verify import verify
from headgate.testing.edges import ManualClock, SeededChance, SeededIds
from headgate.testing.snapshot import difference, snapshot
from headgate.testing.witness import Witness

R = TypeVar("R")
E = TypeVar("E", bound=Event)
_MOST_PROPOSALS = 1_000_000


class Told(msgspec.Struct, frozen=True):
    """One command of the record, and when it was given."""

    at: int
    command: c.Command[Any]


class Harness:
    """Drives the core as an engine would. `careful=False` leaves out the checks after each step, for large tests."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        policy: Policy | None = None,
        seed: int = 0,
        careful: bool = True,
        **changes: Any,
    ) -> None:
        changes = changes if settings is not None else {"fixed_busy": 0.0, **changes}
        self.state = State(msgspec.structs.replace(settings or Settings(), **changes))
        self.policy = policy or FirstFit()
        self.clock = ManualClock()
        self.chance = SeededChance(seed)
        self.ids = SeededIds(seed)
        self.careful = careful
        self.witness = Witness()
        self.commands: list[Told] = []
        self.events: list[Event] = []
        self.refusals: list[Refusal] = []
        self.leases: list[Lease] = []
        """Every lease ever granted, as it was when granted."""

    @property
    def now(self) -> int:
        """The time of the clock."""
        return self.clock.now()

    # -- telling the core something ---------------------------------------------------------------------------

    def tell(self, command: c.Command[R], *, at: int | None = None) -> R:
        """Give a command, now or at another time; record what it led to and check everything."""
        now = self.now if at is None else at
        self.commands.append(Told(now, command))
        before = snapshot(self.state) if self.careful else b""
        try:
            outcome = decide(self.state, command, now, self.chance.uniform)
        except HeadgateError:
            self._unchanged(before, command)
            raise
        self.events += outcome.events
        if self.careful:
            verify(self.state)
            self.witness.saw(self.state, outcome.events, now)
        return outcome.reply

    def _unchanged(self, before: bytes, command: c.Command[Any]) -> None:
        after = snapshot(self.state) if self.careful else b""
        if before != after:
            raise InvariantBroken(f"{command} was refused and changed: {difference(before, after)}")

    def advance(self, milliseconds: int, *, step: int | None = None) -> None:
        """Let time pass and tick at its end, and every `step` milliseconds on the way."""
        end = self.now + milliseconds
        while self.now < end:
            self.clock.advance(min(step or milliseconds, end - self.now))
            self.tell(c.Tick())

    # -- jobs ---------------------------------------------------------------------------------------------------

    def submit(self, spec: JobSpec, *, id: str | None = None) -> str:  # noqa: A002  # the domain calls it id
        """Submit one job; its id is its name where that is free."""
        return self.tell(c.Submit((c.NewJob(id or self._id_for(spec, set()), spec),))).ids[0]

    def submit_all(self, specs: Iterable[JobSpec], *, finished: dict[str, JobState] | None = None) -> list[str]:
        """Submit jobs in bulk, all or none."""
        taken: set[str] = set()
        jobs = []
        for spec in specs:
            id_ = self._id_for(spec, taken)
            taken.add(id_)
            jobs.append(c.NewJob(id_, spec))
        return list(self.tell(c.Submit(tuple(jobs), finished or {})).ids)

    def _id_for(self, spec: JobSpec, taken: set[str]) -> str:
        free = spec.name not in self.state.jobs and spec.name not in taken
        return spec.name if free else f"{spec.name}-{self.ids.new()[-8:]}"

    def cancel(self, job_id: str) -> None:
        self.tell(c.Cancel(job_id))

    def patch(self, job_id: str, **changes: Any) -> None:
        self.tell(c.Patch(job_id, **changes))

    # -- scheduling ---------------------------------------------------------------------------------------------

    def cycle(self) -> list[str]:
        """Ask the policy and carry out its plan until it has nothing more; the ids of the jobs that got a lease."""
        granted: list[str] = []
        for _ in range(_MOST_PROPOSALS):
            actions = self.policy.propose(self.state, self.now)
            if not actions:
                return granted
            leased, refused = self._carry_out(actions)
            granted += leased
            if refused == len(actions):
                return granted
        raise InvariantBroken("the policy never came to an end")

    def schedule(self, *actions: Action) -> AnyReason | None:
        """Carry out a plan of one's own; why the last action was refused, or none."""
        self._carry_out(actions)
        last = self.refusals[-1] if self.refusals else None
        return last.reason if last is not None and last.action is actions[-1] else None

    def grant(self, job_id: str, worker_id: str | None = None) -> Lease:
        """Give a job a lease whatever the policy thinks; raises where the core refuses."""
        refusal = self.schedule(Dispatch(job_id, worker_id))
        if refusal is not None:
            raise AssertionError(f"{job_id} got no lease: {refusal.detail()}")
        return self.lease(job_id)

    def _carry_out(self, actions: Sequence[Action]) -> tuple[list[str], int]:
        answer = self.tell(c.Schedule(tuple(actions)))
        self.refusals += answer.refused
        given = [msgspec.structs.replace(self.state.leases[id_]) for id_ in answer.granted]
        self.leases += given
        return [lease.job_id for lease in given], len(answer.refused)

    # -- what holders say; jobs are named, their live lease is meant ------------------------------------------------

    def lease(self, job_id: str) -> Lease:
        """The live lease of a job."""
        lease = self.state.job(job_id).lease
        if lease is None:
            raise AssertionError(f"{job_id} holds no lease, it is {self.state_of(job_id)}")
        return lease

    def start(self, *job_ids: str) -> None:
        for lease in map(self.lease, job_ids):
            self.tell(c.Start(lease.id, lease.token))

    def beat(self, job_id: str) -> c.Beat:
        lease = self.lease(job_id)
        return self.tell(c.Heartbeat(lease.id, lease.token))

    def complete(self, job_id: str, result: bytes = b"null") -> None:
        lease = self.lease(job_id)
        self.tell(c.Complete(lease.id, lease.token, result))

    def fail(self, job_id: str, code: str = "error", *, retry: bool = True) -> None:
        lease = self.lease(job_id)
        self.tell(c.Fail(lease.id, lease.token, Failure(code), retry))

    def release(self, job_id: str) -> None:
        lease = self.lease(job_id)
        self.tell(c.Release(lease.id, lease.token))

    def run(self, *job_ids: str) -> None:
        """Start and complete."""
        for job_id in job_ids:
            self.start(job_id)
            self.complete(job_id)

    # -- the cluster and time ---------------------------------------------------------------------------------------

    def join(self, *specs: WorkerSpec) -> None:
        for spec in specs:
            self.tell(c.RegisterWorker(spec))

    def hear(self, worker_id: str) -> None:
        """A sign of life of a worker."""
        self.tell(c.WorkerBeat(worker_id))

    def kill(self, worker_id: str) -> None:
        """The worker is found broken; what it held is lost."""
        self.tell(c.FailWorker(worker_id))

    def report(self, report: PoolReport) -> None:
        self.tell(c.ReportPool(report))

    def tenant(self, spec: TenantSpec) -> None:
        self.tell(c.SetTenant(spec))

    def sample(self, source: str = "host", **signals: Any) -> float:
        return self.tell(c.SampleLoad(source, signals))

    def tick(self) -> None:
        self.tell(c.Tick())

    # -- asking and asserting ---------------------------------------------------------------------------------------

    def state_of(self, job_id: str) -> JobState:
        return self.state.job(job_id).state

    def queue(self) -> list[str]:
        """Ready jobs in the default order."""
        return [job.id for job in self.state.ready]

    def explain(self, job_id: str) -> Explanation:
        return explain(self.state, job_id, self.now)

    def seen(self, event_type: type[E]) -> list[E]:
        """Events of one type, in order."""
        return [event for event in self.events if isinstance(event, event_type)]

    def holds(self, worker_id: str, job_ids: Iterable[str]) -> None:
        """Assert that exactly these jobs are leased to the worker."""
        held = sorted(self.state.leases[id_].job_id for id_ in self.state.worker(worker_id).leases)
        if held != sorted(job_ids):
            raise AssertionError(f"{worker_id} holds {held}, not {sorted(job_ids)}")

    def is_(self, state: JobState | str, *job_ids: str) -> None:
        """Assert that all these jobs are in a state."""
        found = {job_id: str(self.state_of(job_id)) for job_id in job_ids}
        wrong = {job_id: other for job_id, other in found.items() if other != state}
        if wrong:
            raise AssertionError(f"not {state}: {wrong}")
