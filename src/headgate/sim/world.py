"""The world: a discrete-event simulation around the very core and policies that run live.

Nothing here decides anything about jobs. The world only does what an engine's surroundings do: it submits jobs when
their time comes, starts what was granted, reports ends and failures, lets time pass, and asks the policy as the engine
does. Heartbeats are left out: simulated holders are never silent, and a dead worker's leases end when a real one's
would have expired.

At one instant: first what ends, then what changes in the cluster, then what arrives, then one scheduling cycle. The
rule `submissions-first` is that of the SC'15 simulations: see `_Sc15`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Literal, TypeVar

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.decide import decide
from headgate.core.errors import HeadgateError
from headgate.core.ordering import Decider, Policy
from headgate.core.state import State
from headgate.core.states import JobState
from headgate.engine.writer import moved_on
from headgate.sim.cluster import FOREVER, Cluster, simulated
from headgate.sim.fleet import CLUSTER, ENDS, WAKE, Fleet
from headgate.sim.life import Life, fate
from headgate.sim.records import Counts, Grant, JobRecord, OnGrant, OnJob, OnSample, Sample, nobody
from headgate.sim.resuming import Begin, resume
from headgate.sim.workloads.model import SimJob

R = TypeVar("R")
Ties = Literal["ends-first", "submissions-first"]
_FORGET_EVERY = 256
_NEVER = FOREVER // 2
_PATIENCE = 10_000
"""So many instants may pass without a job starting or ending while nothing runs; then the rest is stuck."""

OnEvents = Callable[[list[e.Event], int], object]
GoOn = Callable[[], bool]
"""Asked before every instant; no longer going on stops a run where it stands."""


class World:
    """One run. `on_job` hears of every job that ended, in the order in which they ended.

    Of jobs that come as a stream nobody knows who will be depended on, so how each of them ended is kept;
    `linked=False` says that nobody will be.
    """

    def __init__(
        self,
        cluster: Cluster,
        jobs: Iterable[SimJob],
        policy: Policy,
        *,
        seed: int = 0,
        ties: Ties = "ends-first",
        on_job: OnJob = nobody,
        on_grant: OnGrant | None = None,
        on_sample: OnSample | None = None,
        sample_every: int = 0,
        on_events: OnEvents | None = None,
        linked: bool = True,
        begin: Begin | None = None,
    ) -> None:
        self.cluster = cluster
        self.state = State(simulated(cluster.settings, loaded=bool(cluster.load)), begin.epoch if begin else 1)
        self.policy = policy
        self.seed = seed
        self.now = 0
        self.counts = Counts()
        self._ties = ties
        self._on_job, self._on_grant, self._on_sample = on_job, on_grant, on_sample
        self._on_events = on_events
        self._sample_every = sample_every if on_sample is not None else 0
        self._sample_at = 0
        self._observe = policy.observe if isinstance(policy, Decider) else None
        self._disposed = policy.disposed if isinstance(policy, Decider) else None
        self._chance = random.Random(seed).random
        self._arrivals = iter(jobs)
        self._upcoming = next(self._arrivals, None)
        self._heap: list[tuple[int, int, int, Callable[[Any], None], Any]] = []
        self._number = 0
        self._lives: dict[str, Life] = {}
        self._gone: dict[str, JobState] = {}
        """How those jobs ended that others depend on: the core forgets them sooner or later."""
        self._awaited: set[str] | None = set() if isinstance(jobs, Sequence) or not linked else None
        if isinstance(jobs, Sequence) and self._awaited is not None:
            self._awaited.update(parent for job in jobs for parent in job.spec.dependencies)
        self._due = False
        """Whether a timer of the core may be due at the instant that comes next."""
        self._ended = 0
        self._asked = 0
        """How often the policy was asked."""
        self._quiet = 0
        self._wake_at: int | None = None
        """When the policy wants to be asked again. One time is enough: every answer before then names another."""
        self._begin = begin
        self._fleet = Fleet(self)
        self._react: dict[type[e.Event], Callable[[Any], None]] = {
            e.LeaseGranted: self._granted,
            e.JobCompleted: self._completed,
            e.AttemptFailed: self._attempt_failed,
            e.LeaseExpired: self._lease_expired,
            e.LeaseReleased: self._released,
            e.JobCancelled: self._ended_otherwise,
            e.DependencyFailed: self._ended_otherwise,
            e.DeadlineMissed: self._ended_otherwise,
            e.PreemptionAsked: self._asked_to_go,
            e.WorkerWanted: self._fleet.worker_wanted,
            e.WorkerEvicted: self._fleet.worker_evicted,
            e.PolicyWaited: self._policy_waited,
        }

    # -- the run ------------------------------------------------------------------------------------------------

    def run(self) -> Counts:
        """Simulate until every job has ended, or nothing can happen any more."""
        self.start()
        self.advance()
        return self.finish()

    @property
    def under_way(self) -> int:
        """Jobs that were submitted and have not ended."""
        return len(self._lives)

    def start(self) -> None:
        """Set up the cluster, and what runs and waits in it where the world begins in the middle of things."""
        begin, first = self._begin, self._upcoming
        self.now = self._sample_at = begin.at if begin is not None else first.at if first is not None else 0
        self._fleet.furnish()
        if begin is not None:
            self._resume(begin)

    def advance(self, until: int | None = None, go_on: GoOn | None = None) -> bool:
        """Go on until nothing can happen any more; with a time, until then. Says whether there is more to come."""
        step = self._instant if self._ties == "ends-first" else self._instant_sc15
        while True:
            at = self._next()
            if at is None or (self._upcoming is None and not self._lives) or self._quiet > _PATIENCE:
                return False
            if (until is not None and at > until) or (go_on is not None and not go_on()):
                return True
            if self._sample_every:
                self._look(at)
            self.now = at
            self._quiet = 0 if self.state.leases or self._upcoming is not None else self._quiet + 1
            step(at)

    def finish(self) -> Counts:
        """Nothing comes any more: have the last look."""
        if self._sample_every:
            self._look(self.now + self._sample_every)
        self.counts.stuck = len(self._lives)
        return self.counts

    def cut(self, at: int) -> Counts:
        """The end of what is looked at: every job that has not ended is told of as it stands then."""
        if self._sample_every:
            self._look(at)
        self.now = at
        for life in self._lives.values():
            state = "running" if life.running else "waiting"
            life.stop(at)
            self._end_record(life, state, None)
        return self.counts

    def _resume(self, begin: Begin) -> None:
        """Put back what waits and what runs, as an engine does after a restart."""
        for job, lease in resume(self.state, begin, self.now):
            life = self._lives[job.id] = Life(job.job, job.job.at)
            if lease is not None:
                what = (lease.id, lease.token, job.id)
                if lease.started_at is None:
                    self.later(self.now + self.cluster.delays.start, CLUSTER, self._start, what)
                    continue
                life.start(lease.started_at, lease.worker_id or "")
                self.later(self.now + job.left, ENDS, self._complete, what)
        for worker_id in begin.draining:
            if worker_id in self.state.workers:
                self.tell(c.DrainWorker(worker_id, "it was draining"))
        for at, spec in begin.starting:
            self.later(at, CLUSTER, self._fleet.worker_ready, spec)
        if self._observe is not None:
            waiting: list[e.Event] = [e.JobDue(self.now, job.id) for job in begin.jobs if job.lease is None]
            self._observe(waiting, self.state)
        self._cycle()

    def _next(self) -> int | None:
        """The next instant at which anything happens."""
        at = self._heap[0][0] if self._heap else None
        if self._upcoming is not None and (at is None or self._upcoming.at < at):
            at = self._upcoming.at
        soonest = self.state.soonest_timer()
        self._due = soonest is not None and soonest < _NEVER and (at is None or soonest <= at)
        if self._due:
            due = self.state.next_timer()
            if due is not None and (at is None or due < at):
                return max(due, self.now)
        return at

    def _instant(self, at: int) -> None:
        heap = self._heap
        self._pass_time()
        while heap and heap[0][0] == at:
            _, _, _, act, what = heappop(heap)
            act(what)
        if self._upcoming is not None and self._upcoming.at == at:
            self._submit(self._arriving(at))
        self._cycle()

    def _instant_sc15(self, at: int) -> None:
        """Submissions before ends, one event at a time, a cycle after each.

        A job that ends exactly at its estimated end counts as gone from the beginning of the instant; a submission
        that does not fit by itself causes no cycle.
        """
        self._pass_time()
        due = []
        while self._heap and self._heap[0][0] == at:
            due.append(heappop(self._heap))
        exact = [self._is_exact(entry) for entry in due]
        for entry, known in zip(due, exact, strict=True):
            if known:
                entry[3](entry[4])
        for job in self._arriving(at) if self._upcoming is not None and self._upcoming.at == at else ():
            self._submit([job])
            if job.spec.kind.units <= self.state.usable_units(at) - self.state.leased_units:
                self._cycle()
        for entry, known in zip(due, exact, strict=True):
            if not known:
                entry[3](entry[4])
            self._cycle()

    def _is_exact(self, entry: tuple[int, int, int, Callable[[Any], None], Any]) -> bool:
        at, rank, _, _, what = entry
        if rank != ENDS:
            return rank == CLUSTER
        life = self._lives.get(what[2])
        estimate = life.job.spec.kind.estimated_duration if life is not None else None
        return life is not None and estimate is not None and life.started_at + estimate <= at

    def _pass_time(self) -> None:
        """Tick where a timer is due, and now and then to forget what ended."""
        if self._due or self._ended >= _FORGET_EVERY:
            self._ended = 0
            self.tell(c.Tick())

    def _cycle(self) -> None:
        """Ask the policy as the engine does: until it waits, or nothing of what it proposes holds."""
        state, now = self.state, self.now
        if not state.ready.size:
            return
        self.counts.cycles += 1
        while True:
            self._asked += 1
            actions = self.policy.propose(state, now)
            if not actions:
                return
            scheduled = self.tell(c.Schedule(tuple(actions)))
            if scheduled.refused:
                self._note_refusals(scheduled)
            if self._disposed is not None:
                for wish in self._disposed(scheduled, now):
                    if isinstance(wish, c.Command):
                        self.tell(wish)
            if not moved_on(actions, scheduled):
                return

    def _note_refusals(self, scheduled: c.Scheduled) -> None:
        self.counts.refusals += len(scheduled.refused)
        by_code = self.counts.refusals_by_code
        for refusal in scheduled.refused:
            code = str(type(refusal.reason).__struct_config__.tag)
            by_code[code] = by_code.get(code, 0) + 1

    def tell(self, command: c.Command[R]) -> R:
        """Give the core a command; the policy and the world hear what came of it."""
        outcome = decide(self.state, command, self.now, self._chance)
        events = outcome.events
        self.counts.events += len(events)
        if self._observe is not None:
            self._observe(events, self.state)
        if self._on_events is not None:
            self._on_events(events, self.now)
        react = self._react
        for event in events:
            reaction = react.get(type(event))
            if reaction is not None:
                reaction(event)
        return outcome.reply

    def later(self, at: int, rank: int, act: Callable[[Any], None], what: Any) -> None:
        """Have something happen at a time; at one instant, lower ranks come first."""
        self._number += 1
        heappush(self._heap, (at, rank, self._number, act, what))

    def _look(self, until: int) -> None:
        """How things stand until `until`: told at the first and at the last moment of that time at which it is due."""
        first, every, state = self._sample_at, self._sample_every, self.state
        if first >= until or self._on_sample is None:
            return
        last = first + (until - 1 - first) // every * every
        for at in dict.fromkeys((first, last)):
            usable = state.usable_units(self.now)
            self._on_sample(Sample(at, state.depth, len(state.leases), state.leased_units, usable))
        self._sample_at = last + every

    # -- arrivals -----------------------------------------------------------------------------------------------

    def _arriving(self, at: int) -> list[SimJob]:
        found: list[SimJob] = []
        job = self._upcoming
        while job is not None and job.at <= at:
            found.append(job)
            job = next(self._arrivals, None)
        self._upcoming = job
        return found

    def _submit(self, jobs: list[SimJob]) -> None:
        """All that arrive at once travel together; where one is refused, each goes alone."""
        for job in jobs:
            self._lives[job.id] = Life(job, self.now)
        try:
            self.tell(c.Submit(tuple([c.NewJob(job.id, job.spec) for job in jobs]), self._gone))
        except HeadgateError:
            if len(jobs) > 1:
                for job in jobs:
                    self._submit([job])
                return
            del self._lives[jobs[0].id]
            self.counts.refused_submissions += 1
            self._end_record(Life(jobs[0], self.now), "refused", None)
            return
        self.counts.submitted += len(jobs)

    # -- what becomes of a lease --------------------------------------------------------------------------------

    def _granted(self, event: e.LeaseGranted) -> None:
        self.counts.grants += 1
        life = self._lives[event.job_id]
        if self._on_grant is not None:
            self._on_grant(Grant(self.now, event.job_id, event.worker_id or "", event.reason, self._asked))
        if event.worker_id in self._fleet.dead:
            return
        delay = self.cluster.delays.start
        what = (event.lease_id, event.token, event.job_id)
        if delay:
            self.later(self.now + delay, CLUSTER, self._start, what)
        else:
            life.worker = event.worker_id or ""
            self._start(what)

    def _start(self, what: tuple[str, int, str]) -> None:
        lease_id, token, job_id = what
        lease = self.state.leases.get(lease_id)
        if lease is None or lease.worker_id in self._fleet.dead:
            return
        life = self._lives[job_id]
        life.start(self.now, lease.worker_id or "")
        self.tell(c.Start(lease_id, token))
        lasts, fails = fate(life, self.seed, self.cluster.faults.job_failure)
        self.later(self.now + lasts, ENDS, self._fail if fails else self._complete, what)

    def _holds(self, lease_id: str) -> bool:
        lease = self.state.leases.get(lease_id)
        return lease is not None and lease.worker_id not in self._fleet.dead

    def _complete(self, what: tuple[str, int, str]) -> None:
        if self._holds(what[0]):
            self.tell(c.Complete(what[0], what[1]))

    def _fail(self, what: tuple[str, int, str]) -> None:
        if self._holds(what[0]):
            self.tell(c.Fail(what[0], what[1], e.Failure("simulated", "the attempt fails in this world")))

    def _asked_to_go(self, event: e.PreemptionAsked) -> None:
        self.counts.preemptions += 1
        token = self.state.leases[event.lease_id].token
        # Never at once: a policy that gives the room away and asks again would stop the clock.
        at = self.now + max(1, min(self.cluster.delays.let_go, event.fence_at - self.now))
        self.later(at, CLUSTER, self._let_go, (event.lease_id, token, event.job_id))

    def _let_go(self, what: tuple[str, int, str]) -> None:
        if self._holds(what[0]):
            self.tell(c.Release(what[0], what[1]))

    # -- how jobs end -------------------------------------------------------------------------------------------

    def _completed(self, event: e.JobCompleted) -> None:
        life = self._lives.pop(event.job_id)
        life.stop(self.now)
        self._end_record(life, "completed", event.job_id)

    def _attempt_failed(self, event: e.AttemptFailed) -> None:
        self.counts.failed_attempts += 1
        self._again_or_over(event.job_id, event.retry_at, "failed")

    def _lease_expired(self, event: e.LeaseExpired) -> None:
        self._again_or_over(event.job_id, event.retry_at, "expired")

    def _again_or_over(self, job_id: str, retry_at: int | None, state: str) -> None:
        life = self._lives[job_id]
        life.stop(self.now)
        life.start_over()
        if retry_at is None:
            del self._lives[job_id]
            self._end_record(life, state, job_id)

    def _released(self, event: e.LeaseReleased) -> None:
        life = self._lives[event.job_id]
        life.stop(self.now)
        life.preemptions += 1
        if not life.job.spec.kind.checkpointable:
            life.start_over()

    def _ended_otherwise(self, event: e.JobCancelled | e.DependencyFailed | e.DeadlineMissed) -> None:
        life = self._lives.pop(event.id, None)
        if life is not None:
            life.stop(self.now)
            self._end_record(life, str(self.state.jobs[event.id].state), event.id)

    def _end_record(self, life: Life, state: str, job_id: str | None) -> None:
        self._ended += 1
        if job_id is not None and (self._awaited is None or job_id in self._awaited):
            self._gone[job_id] = self.state.jobs[job_id].state
        job, kind = life.job, life.job.spec.kind
        self._on_job(
            JobRecord(
                job.id,
                job.user or kind.tenant,
                kind.job_class,
                life.submitted,
                life.first_start,
                self.now,
                state,
                kind.units,
                life.ran,
                kind.estimated_duration,
                life.attempts,
                life.preemptions,
                life.worker,
                job.spec.deadline,
            )
        )

    def _policy_waited(self, event: e.PolicyWaited) -> None:
        if event.retry_after is None:
            return
        at = self.now + max(1, event.retry_after)
        if self._wake_at is None or at < self._wake_at:
            self._wake_at = at
            self.later(at, WAKE, self._woken, at)

    def _woken(self, at: int) -> None:
        if at == self._wake_at:
            self._wake_at = None
