"""The native ordering may propose many dispatches at once; what is granted must be what one at a time would grant."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.core import Settings, State, decide
from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import Action
from headgate.core.cluster import PoolReport, WorkerSpec
from headgate.core.job import EXTERNAL, JobKind, JobSpec
from headgate.core.ordering import FirstFit
from headgate.core.tenants import TenantSpec


class OneAtATime(FirstFit):
    """The same ordering, asked anew after every action."""

    def propose(self, state: State, now: int) -> list[Action]:
        return super().propose(state, now)[:1]


kinds = st.builds(
    JobKind,
    type=st.sampled_from(["a", "b"]),
    priority=st.sampled_from(["high", "normal", "low"]),
    rank=st.sampled_from([0, 0, 0, 3]),
    tenant=st.sampled_from(["x", "x", "x", "y"]),
    units=st.integers(0, 3),
    resources=st.sampled_from([(), (), (("gpu", 1),)]),
    run=st.sampled_from([JobKind().run, JobKind().run, EXTERNAL]),
)
# A few kinds with many jobs each, in runs and mixed: that is where many are proposed at once.
queues = st.lists(kinds, min_size=1, max_size=4).flatmap(
    lambda few: st.lists(st.tuples(st.sampled_from(few), st.integers(1, 4)), min_size=1, max_size=15)
)
workers = st.lists(
    st.builds(
        WorkerSpec,
        id=st.sampled_from(["w1", "w2", "w3"]),
        slots=st.integers(1, 2),
        prefetch=st.integers(0, 8),
        resources=st.just((("gpu", 2),)),
        types=st.sampled_from([None, None, ("a",)]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda spec: spec.id,
)
rules = st.builds(
    Settings,
    total_units=st.integers(1, 40),
    fixed_busy=st.just(0.0),
    stagger=st.sampled_from([0, 0, 0, 50]),
    preemption=st.booleans(),
)
tenants = st.builds(TenantSpec, st.just("x"), max_leases=st.sampled_from([None, None, 3]))
reports = st.sampled_from([None, None, PoolReport("default", units=5)])


def granted_by(policy: FirstFit, world: tuple[Any, ...], ends: list[int]) -> list[tuple[str, str | None]]:
    """Jobs and their workers, in the order of their grants; between two cycles a lease ends."""
    settings, fleet, queue, tenant, report = world
    state, now, events = State(settings), 0, list[e.Event]()
    setup: list[c.Command[Any]] = [*map(c.RegisterWorker, fleet), c.SetTenant(tenant)]
    setup += [] if report is None else [c.ReportPool(report)]
    jobs = [kind for kind, count in queue for _ in range(count)]
    setup += [c.Submit(tuple(c.NewJob(f"{n:03}", JobSpec(kind, "")) for n, kind in enumerate(jobs)))]
    for command in setup:
        decide(state, command, now)
    for end in [*ends, 0]:
        while plan := policy.propose(state, now):
            out = decide(state, c.Schedule(tuple(plan)), now)
            events += out.events
            if not out.events:
                break
        now += 100
        if state.leases:
            lease = list(state.leases.values())[end % len(state.leases)]
            decide(state, c.Release(lease.id, lease.token), now)
    return [(event.job_id, event.worker_id) for event in events if type(event) is e.LeaseGranted]


@given(st.tuples(rules, workers, queues, tenants, reports), st.lists(st.integers(0, 20), max_size=8))
def test_many_dispatches_at_once_grant_what_one_at_a_time_would(world: tuple[Any, ...], ends: list[int]) -> None:
    assert granted_by(FirstFit(), world, ends) == granted_by(OneAtATime(), world, ends)


def test_jobs_that_need_nothing_special_are_proposed_together() -> None:
    state = State(Settings(total_units=100, fixed_busy=0.0))
    decide(state, c.RegisterWorker(WorkerSpec("w", slots=1, prefetch=9)), 0)
    decide(state, c.Submit(tuple(c.NewJob(f"{n:02}", JobSpec(JobKind(), "")) for n in range(20))), 0)
    assert [action.job_id for action in FirstFit().propose(state, 0)] == [f"{n:02}" for n in range(10)]  # type: ignore[union-attr]
