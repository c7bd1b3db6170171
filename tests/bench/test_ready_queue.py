"""What the benchmarks lean on: the index finds the same jobs in the same order as a plain look at all of them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import JobSpec, Settings, State, decide, ordering, verify
from headgate.core import commands as c
from headgate.core.bucket import Shape
from headgate.core.cluster import Worker, WorkerSpec
from headgate.core.job import EXTERNAL, JobKind
from headgate.core.ordering import FirstFit
from headgate.core.ready import ReadyQueue


def state_with_a_worker(slots: int = 1) -> State:
    state = State(Settings(fixed_busy=0, total_units=1_000))
    decide(state, c.RegisterWorker(WorkerSpec("worker", slots=slots)), 0)
    return state


def submit(state: State, job_id: str, kind: JobKind, now: int = 0) -> None:
    decide(state, c.Submit((c.NewJob(job_id, JobSpec(kind, job_id)),)), now)


def run_next(state: State, now: int) -> str:
    out = decide(state, c.Schedule(tuple(FirstFit().propose(state, now))), now)
    lease = state.leases[out.reply.granted[0]]
    decide(state, c.Start(lease.id, lease.token), now)
    decide(state, c.Complete(lease.id, lease.token), now + 10)
    return lease.job_id


def test_a_tenant_without_ready_jobs_stands_nowhere_when_its_lease_ends() -> None:
    state = state_with_a_worker()
    for job_id, tenant in (("a1", "a"), ("b1", "b"), ("c1", "c")):
        submit(state, job_id, JobKind(tenant=tenant))
    assert run_next(state, 0) == "a1"
    submit(state, "a2", JobKind(tenant="a"), 20)
    verify(state)
    assert sorted(job.id for job in state.ready) == ["a2", "b1", "c1"]


# -- the index against a plain look at everything ----------------------------------------------------------------------

KINDS = [
    JobKind(tenant=tenant, priority=priority, units=units, rank=rank)
    for tenant in "abc"
    for priority in ("high", "low")
    for units in (1, 2, 3)
    for rank in (0, 5)
] + [JobKind(tenant=tenant, run=EXTERNAL, units=4) for tenant in "abc"]
step = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(KINDS)),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("rank"), st.integers(0, 30), st.integers(-2, 7)),
    st.tuples(st.just("grant"), st.integers(1, 4)),
    st.tuples(st.just("release"), st.integers(0, 5)),
    st.tuples(st.just("complete"), st.integers(0, 5)),
)


def expected_order(state: State) -> list[str]:
    """Every ready job that leads its shape, by class, standing of the tenant, rank and submission."""
    leaders: dict[tuple[int, str, int], tuple[tuple[float, ...], str]] = {}
    places = [{line.tenant: line.place for line in lines.values()} for lines in state.ready._lines]
    for job in state.jobs.values():
        if job.ready:
            of, job_class = job.kind.of, job.kind.job_class
            key = (job_class, *places[job_class][of.tenant], -of.rank, job.seq)
            group = (job_class, of.tenant, of.units)
            leaders[group] = min(leaders.get(group, (key, job.id)), (key, job.id))
    return [job_id for _, job_id in sorted(leaders.values())]


def do(state: State, what: str, *how: Any) -> None:
    ready = sorted(job.id for job in state.ready)
    leases = list(state.leases.values())
    if what == "submit":
        submit(state, f"job-{state.seq:04d}", how[0])
    elif what == "cancel" and ready:
        decide(state, c.Cancel(ready[how[0] % len(ready)]), 0)
    elif what == "rank" and ready:
        decide(state, c.Patch(ready[how[0] % len(ready)], rank=how[1]), 0)
    elif what == "grant":
        for _ in range(how[0]):
            decide(state, c.Schedule(tuple(FirstFit().propose(state, 0))), 0)
    elif what == "release" and leases:
        lease = leases[how[0] % len(leases)]
        decide(state, c.Release(lease.id, lease.token), 0)
    elif what == "complete" and leases:
        lease = leases[how[0] % len(leases)]
        decide(state, c.Start(lease.id, lease.token), 0)
        decide(state, c.Complete(lease.id, lease.token), 0)


@settings(deadline=None)
@given(st.lists(step, max_size=60))
def test_heads_are_asked_about_in_the_order_of_a_plain_sort(steps: list[tuple[Any, ...]]) -> None:
    state = state_with_a_worker(slots=6)
    for one in steps:
        do(state, *one)
        state.room += 1  # nothing is known not to fit
        found: list[str] = []
        state.ready.seek(state.room, (), lambda _, head, found=found: found.append(head.id))  # type: ignore[misc]
        assert found == expected_order(state)
    verify(state)


@settings(deadline=None)
@given(st.lists(step, max_size=60))
def test_what_the_index_passes_over_would_not_have_fitted(steps: list[tuple[Any, ...]]) -> None:
    state = state_with_a_worker(slots=3)
    for one in steps:
        do(state, *one)
        proposed = FirstFit().propose(state, 0)
        state.room += 1
        assert FirstFit().propose(state, 0) == proposed


def test_a_shape_that_fits_nowhere_is_tried_once_for_all_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_with_a_worker()
    for tenant in range(50):
        submit(state, f"job-{tenant}", JobKind(tenant=f"tenant-{tenant}", resources=(("gpu", 1),)))
    tried: list[Shape] = []
    real = ordering.first_fit

    def watched(state: State, shape: Shape, now: int) -> tuple[Worker | None, bool]:
        tried.append(shape)
        return real(state, shape, now)

    monkeypatch.setattr(ordering, "first_fit", watched)
    assert FirstFit().propose(state, 0) == []
    assert FirstFit().propose(state, 0) == []
    assert len(tried) == 1


def test_the_number_of_a_forgotten_shape_starts_afresh() -> None:
    queue = ReadyQueue()
    old = queue.bucket_for(0, JobKind(units=7)).shape
    queue.give_up(old, 1)
    queue.forget_idle(set())
    new = queue.bucket_for(0, JobKind(units=8)).shape
    assert new.number == old.number
    assert not new.bit & queue._hopeless
