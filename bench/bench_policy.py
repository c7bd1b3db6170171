"""Policy decisions through the sandbox: latency, batches, fallback, refork, memory, and the whole way of a lease.

Run as `python -m bench.bench_policy`. Ratios are against a raw limit measured in the same run: an echo through a bare
child process on a socket pair.
"""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.policy_world import HANG, PLATFORM, SCAN, YAML, Engine, queue
from bench.report import Goal, Table, at_most, seconds
from headgate.policy.deltas import Question
from headgate.policy.host import PolicyHost
from headgate.policy.runtime import Runtime
from headgate.policy.verdict import HostSettings

SIZES = (1_000, 10_000, 100_000)
POLICIES = {"platform policy": PLATFORM, "Lua scan of the whole queue": SCAN, "compiled YAML": YAML}
BATCH = 64
NOW = 1_000_000


def quantiles(act: Callable[[], object], rounds: int, warm_up: int = 200) -> tuple[float, float]:
    """Median and 99th percentile in microseconds, after a warm-up."""
    for _ in range(min(rounds, warm_up)):
        act()
    times = sorted(seconds(act) * 1e6 for _ in range(rounds))
    return times[rounds // 2], times[int(rounds * 0.99)]


def echo(rounds: int = 2_000) -> tuple[float, float]:
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

    found = quantiles(trip, rounds)
    ours.close()
    os.waitpid(pid, 0)
    return found


def decisions(table: Table, host: PolicyHost, size: int, raw: float, rounds: int) -> None:
    """Latency of one decision under each policy, and of many in one cycle, at one length of the queue."""
    for name, source in POLICIES.items():
        host.load(source, name)
        host.wait_ready()
        many = rounds if name == "platform policy" or size < SIZES[-1] else max(10, rounds // 8)
        p50, p99 = quantiles(lambda: _ask(host, 1), many)
        goals = _latency_goals(p50, p99) if name == "platform policy" and size == SIZES[-1] else []
        table.add(f"{name}, {size:,} queued", p50, p99, p50 / raw, goals=goals)
    host.load(PLATFORM, "batch")
    p50, p99 = quantiles(lambda: _ask(host, BATCH), max(10, rounds // 4), warm_up=20)
    per = f"platform policy, {size:,} queued, per decision in {BATCH}"
    table.add(per, p50 / BATCH, p99 / BATCH, p50 / BATCH / raw, goals=[at_most(p50 / BATCH, 20, " us")])


def _latency_goals(p50: float, p99: float) -> list[Goal]:
    return [at_most(p50, 100, " us"), at_most(p99, 500, " us")]


def _ask(host: PolicyHost, answers: int) -> None:
    """One cycle that the user's policy has to decide; where the machine made its child late, it is asked again."""
    verdict = host.ask(Question(NOW, max_answers=answers, budget_ms=1_000))
    for _ in range(3):
        if verdict.failure is None:
            break
        host.wait_ready()
        verdict = host.ask(Question(NOW, max_answers=answers, budget_ms=1_000))
    assert verdict.decided_by == "user", verdict.message
    assert answers == 1 or len(verdict.actions) == answers


def failures(table: Table, host: PolicyHost, rounds: int = 20) -> None:
    """From a hung policy to the fallback's decision, and until a new child is ready."""
    host.load(HANG, "hang")
    over, born = [], []
    for _ in range(rounds):
        begun = perf_counter()
        verdict = host.ask(Question(NOW, max_answers=1))
        over.append((perf_counter() - begun) * 1e3 - host.settings.limit_ms)
        assert verdict.decided_by == "platform"
        begun = perf_counter()
        assert host.wait_ready()
        born.append((perf_counter() - begun) * 1e3)
    table.add("hung policy to the fallback's decision, beyond the limit", *_middle(over), goals=_ten(over))
    table.add("new child ready after that", *_middle(born), goals=_ten(born))


def _middle(times: list[float]) -> tuple[float, float]:
    return median(times), max(times)


def _ten(times: list[float]) -> list[Goal]:
    return [at_most(median(times), 10, " ms")]


def memory(table: Table, host: PolicyHost, jobs: int) -> None:
    """What the mirror costs, in a runtime of our own and as the kernel counts host and child."""
    runtime, state = Runtime(bounded=True), queue(jobs)
    used = runtime.memory_used()
    took = seconds(lambda: runtime.apply(state))
    runtime.collect()
    table.add("mirror, bytes a queued job", (runtime.memory_used() - used) / jobs)
    table.add("mirror, microseconds a told job", took / jobs * 1e6)
    for name, pid in zip(("host", "child"), host.pids(), strict=True):
        resident, shared = _resident(pid)
        table.add(f"{name}, MB resident / of it shared", resident, shared)


def _resident(pid: int | None) -> tuple[float, float]:
    fields = Path(f"/proc/{pid}/statm").read_text().split() if pid else ["0", "0", "0"]
    page = resource.getpagesize() / (1 << 20)
    return int(fields[1]) * page, int(fields[2]) * page


def whole_way(table: Table, jobs: int, cycles: int = 10) -> None:
    """`PolicyEngine.propose` with mirroring, the core's check and the record, for each lease that was granted."""
    for label, record in (("recorded", True), ("not recorded", False)):
        engine = Engine(jobs, record=record)
        try:
            granted = engine.cycle()  # the first one tells everything
            times = []
            for _ in range(cycles):
                engine.finish_all()
                engine.submit(granted)
                begun = perf_counter()
                granted = engine.cycle()
                times.append((perf_counter() - begun) * 1e6 / granted)
            assert engine.recorded == (cycles + 1 if record else 0)
            table.add(f"cycle of {granted} leases, {jobs:,} queued, {label}", median(times), max(times), granted)
        finally:
            engine.deciding.stop()


def at_each_size(table: Table, sizes: tuple[int, ...], rounds: int) -> PolicyHost:
    """Measure at every length of the queue; the host of the last one is handed back running."""
    raw, raw_p99 = echo(rounds)
    table.add("echo through a bare child", raw, raw_p99, 1.0)
    host = None
    for size in sizes:
        if host is not None:
            host.stop()
        state = queue(size)
        host = PolicyHost(HostSettings(), resync=lambda state=state: state)  # type: ignore[misc]
        host.start()
        host.ask(Question(NOW))
        decisions(table, host, size, raw, rounds)
    assert host is not None
    return host


def main(sizes: tuple[int, ...] = SIZES, rounds: int = 2_000) -> None:
    """Print the tables."""
    latency = Table("policy, one decision through the sandbox (us)", ["p50", "p99", "of echo"])
    host = at_each_size(latency, sizes, rounds)
    try:
        latency.show()
        rescue = Table("policy, when it hangs (ms)", ["median", "worst"])
        failures(rescue, host)
        rescue.show()
        room = Table(f"policy, memory at {sizes[-1]:,} queued", ["", "shared"])
        memory(room, host, sizes[-1])
        room.show()
    finally:
        host.stop()
    way = Table("policy, the whole way: mirror, ask, check, record (us a lease)", ["median", "worst", "leases"])
    for size in sizes:
        whole_way(way, size)
    way.show()


if __name__ == "__main__":
    main()
