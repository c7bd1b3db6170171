"""What the benchmarks lean on: the index finds the same jobs in the same order as a plain look at all of them."""

from headgate.core import JobSpec, Settings, State, decide, verify
from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.job import JobKind
from headgate.core.ordering import FirstFit


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
