"""Policy decisions through the sandbox: latency, batches, fallback, refork, memory.

Run as `python -m bench.bench_policy`. Ratios are against a raw limit measured in the same run: an echo through
a bare child process on a socket pair.
"""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path

from headgate.policy.deltas import Delta, JobAdded, MetricsSet, Question, TenantSet, WorkerSet
from headgate.policy.host import PolicyHost
from headgate.policy.runtime import Runtime
from headgate.policy.verdict import HostSettings

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 2_000
PLATFORM = "function schedule(context) return platform.schedule(context) end"
SCAN = """
function schedule(context)
  for _, job in ipairs(context.queue) do
    if job.seed ~= nil then return { action = "dispatch", job_id = job.id, worker_id = "w-00" } end
  end
  return { action = "wait" }
end"""
HANG = "function schedule(context) while true do end end"


def world(jobs: int) -> list[Delta]:
    """48 groups: four classes, three tenants, four models; twenty workers with room."""
    state: list[Delta] = [MetricsSet({"usable_units": 10_000, "leased_units": 0})]
    state += [TenantSet(f"tenant-{n}") for n in range(3)]
    state += [
        WorkerSet(f"w-{n:02}", "pool", "ready", f"model-{n % 4}", 8, 8, resources_free={"cpu": 16}) for n in range(20)
    ]
    state += [
        JobAdded(
            f"job-{n:08}", n % 4, 0, n, tenant=f"tenant-{n // 4 % 3}", model_ref=f"model-{n // 12 % 4}",
            resources={"cpu": 1}, queued_at=n, estimated_duration_ms=5_000,
        )
        for n in range(jobs)
    ]  # fmt: skip
    return state


def quantiles(act: Callable[[], object], rounds: int = ROUNDS) -> tuple[float, float]:
    """Median and 99th percentile in microseconds, after a warm-up."""
    for _ in range(min(rounds, 200)):
        act()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        act()
        times.append((time.perf_counter() - begun) * 1e6)
    times.sort()
    return times[rounds // 2], times[int(rounds * 0.99)]


def echo() -> tuple[float, float]:
    """A round trip to a process that only echoes: the least that any child can cost."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        while data := theirs.recv(1 << 16):
            theirs.send(data)
        os._exit(0)
    theirs.close()

    def trip() -> None:
        ours.send(b"x" * 64)
        ours.recv(1 << 16)

    found = quantiles(trip)
    ours.close()
    os.waitpid(pid, 0)
    return found


def row(name: str, p50: float, p99: float, raw: float, goal: str = "") -> None:
    """One line of the table."""
    print(f"{name:<58} {p50:>10.1f} {p99:>10.1f} {p50 / raw:>8.1f}x  {goal}")


def decisions(host: PolicyHost, size: int, raw: float) -> None:
    """Latency of one decision and of batches at one length of the queue."""
    for name, source in (("platform policy", PLATFORM), ("Lua scan of the whole queue", SCAN)):
        host.load(source, name)
        rounds = ROUNDS if name.startswith("platform") or size < 50_000 else 300

        def one() -> None:
            verdict = host.ask(Question(1_000_000, max_answers=1))
            assert verdict.decided_by == "user", verdict.message

        p50, p99 = quantiles(one, rounds)
        goal = "goal 100 / 500" if name.startswith("platform") and size == SIZES[-1] else ""
        row(f"{name}, {size:,} queued, one decision (us)", p50, p99, raw, goal)
    host.load(PLATFORM, "batch")

    def batch() -> None:
        assert len(host.ask(Question(1_000_000, max_answers=64)).actions) == 64

    p50, p99 = quantiles(batch, 500)
    row(f"platform policy, {size:,} queued, per decision in 64 (us)", p50 / 64, p99 / 64, raw, "goal 20")


def failures(host: PolicyHost, raw: float) -> None:
    """From a hung policy to the fallback's decision, and until a new child is ready."""
    host.load(HANG, "hang")
    over, born = [], []
    for _ in range(20):
        begun = time.perf_counter()
        verdict = host.ask(Question(1_000_000, max_answers=1))
        over.append((time.perf_counter() - begun) * 1e3 - host.settings.limit_ms)
        assert verdict.decided_by == "platform"
        begun = time.perf_counter()
        assert host.wait_ready()
        born.append((time.perf_counter() - begun) * 1e3)
    over.sort()
    born.sort()
    row("hung policy to fallback decision, beyond the limit (ms)", over[10], over[-1], raw / 1000, "goal 10")
    row("new child ready after that (ms)", born[10], born[-1], raw / 1000, "goal 10")


def mirror() -> None:
    """What the mirror costs: memory and time per job, the whole thing in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runtime = Runtime(bounded=True)
    jobs = world(100_000)
    used, begun = runtime.memory_used(), time.perf_counter()
    runtime.apply(jobs)
    took = time.perf_counter() - begun
    runtime.collect()
    print(f"mirror: {(runtime.memory_used() - used) / 100_000:.0f} B and {took * 10:.2f} us a job at 100,000", end="")
    print(f" (process grew by {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024:.0f} MB)")


def child_memory(host: PolicyHost) -> None:
    """Resident memory of host and child at 100,000 jobs, as the kernel counts it."""
    status = host.status()
    assert status.host_alive
    for name, pid in (("host", host.pids()[0]), ("child", host.pids()[1])):
        fields = Path(f"/proc/{pid}/statm").read_text().split() if pid else ["0", "0", "0"]
        pages = resource.getpagesize() / (1 << 20)
        print(f"{name}: {int(fields[1]) * pages:.0f} MB resident, {int(fields[2]) * pages:.0f} MB of it shared")


def main() -> None:
    """Print the table."""
    raw, raw_p99 = echo()
    print(f"{'':<58} {'p50':>10} {'p99':>10} {'of echo':>9}")
    row("echo through a bare child (us)", raw, raw_p99, raw)
    for size in SIZES:
        state = world(size)
        host = PolicyHost(HostSettings(limit_ms=50), resync=lambda state=state: state)  # type: ignore[misc]
        host.start()
        host.ask(Question(1_000_000))
        decisions(host, size, raw)
        if size == SIZES[-1]:
            failures(host, raw)
            child_memory(host)
        host.stop()
    mirror()


if __name__ == "__main__":
    main()
