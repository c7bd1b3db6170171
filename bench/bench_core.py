"""The core in memory: what an operation costs with a thousand, a hundred thousand and a million jobs in the queue.

    python -m bench.bench_core [--quick]

All sizes are held at once and measured in turns, so that a disturbance of the machine hits each of them alike; figures
are those of the best turn. Every command goes through `decide`; work is granted by `FirstFit` and `Schedule`.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from pathlib import Path

from bench.core_world import MANY_KINDS, ONE_KIND, World
from bench.report import Goal, Table, Timing, at_least, at_most, best_of, seconds
from headgate.core import JobSpec, Settings, State, decide, parse_job, verify
from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.job import JobKind
from headgate.core.ordering import FirstFit

SIZES = (1_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000, 100_000)
BATCH = 200
"""Operations timed in one go: few enough that a queue of 1,000 stays one."""
BULK = 1_000
LEASES = 10_000
CHILDREN = 100_000

OPERATIONS = {
    "single": "submit, one by one",
    "bulk": "submit, 1,000 a command",
    "drain": "grant + start + complete",
    "life": "submit + grant + start + complete",
    "full": "the same while nothing else fits",
}
Runs = dict[str, list[float]]


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller queues, fewer turns")
    quick = parser.parse_args().quick
    sizes, rounds = (QUICK_SIZES, 5) if quick else (SIZES, 25)
    for title, kinds in (
        ("one kind of job", ONE_KIND),
        ("24 resource shapes x 4 classes x 10 tenants", MANY_KINDS),
    ):
        show(title, sizes, *measure(kinds, sizes, rounds))
    show_others(rounds)


# -- queues of every size -----------------------------------------------------------------------------------------


def measure(kinds: tuple[JobKind, ...], sizes: tuple[int, ...], rounds: int) -> tuple[list[Runs], float]:
    """Rounds over all sizes in turn; also the bytes that each queued job of the largest size takes."""
    gc.collect()
    before = resident_bytes()
    largest = World(kinds).fill(max(sizes))
    per_job = (resident_bytes() - before) / max(sizes)
    worlds = [World(kinds).fill(size) for size in sizes[:-1]] + [largest]
    found: list[Runs] = [{} for _ in sizes]
    for _ in range(rounds):
        for world, runs in zip(worlds, found, strict=True):
            one_round(world, runs)
    for world in worlds:
        world.make_tight()
    for _ in range(rounds):
        for world, runs in zip(worlds, found, strict=True):
            one_full_round(world, runs)
    verify(worlds[0].state)
    return found, per_job


def one_round(world: World, runs: Runs) -> None:
    """Measure each operation once. What is drained is submitted again in kind, so the queue stays what it was."""
    world.breathe()
    many = world.some(BULK)
    _time(runs, "bulk", BULK, lambda: world.submit(many))
    world.cancel(many)
    _time(runs, "drain", BATCH, lambda: world.drain(BATCH))
    again = [world.new(job.kind.of) for job in world.drained]
    _time(runs, "single", BATCH, lambda: world.submit_singly(again))
    more = world.some(BATCH)
    _time(runs, "life", BATCH, lambda: world.live_through(more))
    world.restore(more)


def one_full_round(world: World, runs: Runs) -> None:
    """The same in a cluster that stays full. Each job that ends is followed by one of its kind."""
    world.breathe()
    _time(runs, "full", BATCH, lambda: world.turn_over(BATCH))


def _time(runs: Runs, name: str, operations: int, work: Callable[[], object]) -> None:
    runs.setdefault(name, []).append(seconds(work) / operations)


def resident_bytes() -> int:
    """Memory of this process that is really there."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def show(title: str, sizes: tuple[int, ...], found: list[Runs], per_job: float) -> None:
    """Operations per second by size, and how throughput at the largest compares with the smallest."""
    ratio = f"{sizes[-1]:,} / {sizes[0]:,}"
    table = Table(f"core, {title}: operations/s by jobs in the queue", [*(f"{size:,}" for size in sizes), ratio])
    for name, label in OPERATIONS.items():
        rates = [1 / Timing(tuple(runs[name])).best for runs in found]
        goals = [at_least(rates[-1] / rates[0], 0.8, " x")]
        if name == "life":
            goals.insert(0, at_least(rates[-1], 50_000.0))
        table.add(label, *rates, rates[-1] / rates[0], goals=goals)
    empty = [""] * (len(sizes) - 1)
    table.add("bytes a queued job", *empty, per_job, goals=[at_most(per_job, 600.0, " B")])
    table.show()


# -- what does not depend on the queue ----------------------------------------------------------------------------


def show_others(rounds: int) -> None:
    """Heartbeats, unlocking and the door."""
    table = Table("core, other operations", ["best", "median", ""])
    beats = heartbeats(rounds)
    share = beats.best / 10 * 100
    goal = at_most(share, 1.0, " % of a core")
    _add(table, f"heartbeats of {LEASES:,} leases, ms", beats, f"{share:.2f} % of a core at 10 s", goal)
    unlocked = Timing(tuple(unlock() for _ in range(3)))
    _add(table, f"unlock of {CHILDREN:,} dependents, ms", unlocked, f"{unlocked.best / CHILDREN * 1e6:.2f} us each")
    parsed = best_of(rounds, lambda: [parse_job(WRITTEN) for _ in range(BULK)])
    _add(table, f"parse_job, {BULK:,} jobs, ms", parsed, f"{BULK / parsed.best:,.0f}/s")
    table.show()


def _add(table: Table, label: str, timing: Timing, remark: str, *goals: Goal) -> None:
    table.add(label, timing.best * 1e3, timing.median * 1e3, remark, goals=goals)


def heartbeats(rounds: int) -> Timing:
    """All leases renewed, a hundred a command."""
    state = State(Settings(total_units=LEASES, fixed_busy=0))
    for n in range(2):
        decide(state, c.RegisterWorker(WorkerSpec(f"worker-{n}", slots=LEASES // 2)), 0)
    decide(state, c.Submit(tuple(c.NewJob(f"{n:026d}", JobSpec(JobKind(), "bench")) for n in range(LEASES))), 0)
    while plan := FirstFit().propose(state, 0):
        decide(state, c.Schedule(tuple(plan)), 0)
    held = [(lease.id, lease.token) for lease in state.leases.values()]
    assert len(held) == LEASES
    commands = [c.Heartbeats(tuple(held[n : n + 100])) for n in range(0, LEASES, 100)]
    return best_of(rounds, lambda: [decide(state, command, 10_000) for command in commands])


def unlock() -> float:
    """Seconds to complete a job that a hundred thousand others wait for."""
    world = World(ONE_KIND).fill(1)
    parent = next(iter(world.state.jobs))
    waiting = JobSpec(JobKind(), "bench", dependencies=(parent,))
    world.submit([c.NewJob(f"child-{n:020d}", waiting) for n in range(CHILDREN)])
    lease = world.grant()
    assert lease is not None
    world.start(lease)
    gc.collect()
    took = seconds(lambda: world.complete(lease))
    assert world.state.ready.size == CHILDREN
    return took


WRITTEN = {
    "name": "resize",
    "type": "data_processing",
    "priority": "high",
    "tenant": "acme",
    "units": 2,
    "resources": {"memory": "512MB", "cpu": 1.5},
    "labels": {"team": "images"},
    "payload": {"path": "x" * 88},
    "timeout": "5m",
    "retry": {"attempts": 3},
}
"""A job as a caller may write it."""


if __name__ == "__main__":
    main()
