"""What the benchmarks of policies look at: a queue of any length, and an engine whose cycles a policy decides."""

from __future__ import annotations

from typing import Any

from headgate.core import Settings, State, decide
from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.job import CLASSES, JobKind, JobSpec
from headgate.core.tenants import TenantSpec
from headgate.policy.deciding import PolicyEngine, PolicySettings
from headgate.policy.deltas import Delta, JobAdded, MetricsSet, TenantSet, WorkerSet
from headgate.policy.rules import compile_source
from headgate.policy.verdict import HostSettings

PLATFORM = "function schedule(context) return platform.schedule(context) end"
SCAN = """
function schedule(context)
  for _, job in ipairs(context.queue) do
    if job.seed ~= nil then return { action = "dispatch", job_id = job.id, worker_id = "w-00" } end
  end
  return { action = "wait" }
end"""
HANG = "function schedule(context) while true do end end"
# A rule that looks at groups, one that has to look at every job and finds none, and the platform policy.
YAML = compile_source(
    """scheduler:
  name: bench
  rules:
    - name: large-jobs-first
      condition: { job.units: { gt: 50 } }
      action: { dispatch: { worker_selection: least-loaded } }
      priority: 20
    - name: seeded-jobs
      condition: { job.seed: { exists: true } }
      action: { dispatch: { worker_selection: least-loaded, model_match: required } }
      priority: 10
"""
).lua
TENANTS, MODELS, WORKERS, SLOTS = 3, 4, 20, 8


def queue(jobs: int) -> list[Delta]:
    """48 groups (four classes, three tenants, four models) and twenty workers with room for 160 jobs."""
    state: list[Delta] = [MetricsSet({"usable_units": 10_000, "leased_units": 0})]
    state += [TenantSet(f"tenant-{n}") for n in range(TENANTS)]
    for n in range(WORKERS):
        free = {"cpu": 16.0}
        state.append(WorkerSet(f"w-{n:02}", "pool", "ready", f"model-{n % MODELS}", SLOTS, SLOTS, resources_free=free))
    return state + [_job(n) for n in range(jobs)]


def _job(n: int) -> JobAdded:
    return JobAdded(
        f"job-{n:08}",
        n % 4,
        0,
        n,
        tenant=f"tenant-{n // 4 % TENANTS}",
        model_ref=f"model-{n // 12 % MODELS}",
        resources={"cpu": 1},
        queued_at=n,
        estimated_duration_ms=5_000,
    )


class Engine:
    """A core whose cycles the policy engine decides: events are observed, deltas told, decisions recorded."""

    def __init__(self, jobs: int, *, record: bool = True) -> None:
        # No cycle is cut short by the clock: a figure for each lease needs the same leases every time.
        patient = HostSettings(platform_limit_ms=10_000)
        self.deciding = PolicyEngine(PolicySettings(host=patient, budget_ms=10_000, record=record))
        self.state = State(Settings(fixed_busy=0, total_units=1_000_000))
        self.now = 0
        self._made = 0
        self.recorded = 0
        self._do(*(c.SetTenant(TenantSpec(f"tenant-{n}")) for n in range(TENANTS)))
        self._do(*(c.RegisterWorker(WorkerSpec(f"w-{n:02}", slots=SLOTS)) for n in range(WORKERS)))
        self.submit(jobs)

    def submit(self, jobs: int) -> None:
        """Queue so many more jobs."""
        new = []
        for n in range(self._made, self._made + jobs):
            kind = JobKind(priority=CLASSES[n % 4], tenant=f"tenant-{n // 4 % TENANTS}")
            new.append(c.NewJob(f"job-{n:08}", JobSpec(kind, "job")))
        self._made += jobs
        self._do(c.Submit(tuple(new)))

    def cycle(self) -> int:
        """Propose, schedule, record; the leases that were granted."""
        plan = self.deciding.propose(self.state, self.now)
        outcome = decide(self.state, c.Schedule(tuple(plan)), self.now)
        self.deciding.observe(list(outcome.events), self.state)
        self.recorded += len(self.deciding.disposed(outcome.reply, self.now))
        return len(outcome.reply.granted)

    def finish_all(self) -> None:
        """Everything that runs completes, so that the next cycle has as much room as the last."""
        for lease in list(self.state.leases.values()):
            self._do(c.Start(lease.id, lease.token), c.Complete(lease.id, lease.token))

    def _do(self, *commands: c.Command[Any]) -> None:
        for command in commands:
            self.deciding.observe(list(decide(self.state, command, self.now).events), self.state)
