"""The simulator: jobs per second by the native ordering and through the Lua contract, and memory that stays flat.

Run as `python -m bench.bench_sim [LOG.swf.gz]`. Without a log, the KTH log is taken where it is at hand, else a
generated workload of the same size stands in.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from bench.report import Table, at_least, at_most, seconds
from headgate.sim import Shape, SimJob, Workload, World, generate, machine, read_workload, run
from headgate.sim.native import StrictFcfs

KTH = Path(__file__).parents[2] / "shared/workloads/hpc/inputs/KTH-SP2.sc15.swf.gz"
KTH_JOBS = 28_481


def the_log() -> Workload:
    """The log to simulate."""
    if len(sys.argv) > 1:
        return read_workload(sys.argv[1])
    if KTH.is_file():
        return read_workload(KTH)
    return generate("lublin", 1, Shape(jobs=KTH_JOBS, processors=100, load=0.68))


def speed(workload: Workload) -> Table:
    """One row a policy."""
    table = Table(
        f"{workload.name}, {len(workload):,} jobs on {workload.processors} processors",
        ("seconds", "cpu seconds", "jobs/s", "jobs/cpu s", "Lua s", "us/decision"),
    )
    for policy in ("native:fcfs", "native:first-fit", "fcfs", "easy-backfill", "easy-sjbf", "platform"):
        begun = process_time()
        results = run(workload, policy)
        assert results.jobs == len(workload)
        cpu, wall = process_time() - begun, results.measured.seconds
        lua, asked = results.measured.policy_seconds, results.measured.decisions
        goals = []
        if policy == "native:fcfs":
            goals = [at_least(len(workload) / wall, 20_000, "/s")]
        elif policy == "easy-backfill":
            goals = [at_most(wall, 20, " s")]
        each = lua / asked * 1e6 if asked else 0.0
        table.add(policy, wall, cpu, len(workload) / wall, len(workload) / cpu, lua, each, goals=goals)
    return table


def stream(count: int) -> Iterator[SimJob]:
    """Jobs that come one by one and are known to nobody beforehand."""
    spec = generate("poisson", 0, Shape(jobs=1)).jobs[0].spec
    for number in range(count):
        yield SimJob(f"j{number}", number * 1_000, 900, spec)


def peak(count: int) -> int:
    """Bytes in use at most."""
    tracemalloc.start()
    World(machine(64), stream(count), StrictFcfs(), linked=False).run()
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return used


def memory() -> Table:
    """Ten times the jobs, the same memory."""
    table = Table("peak memory by the number of finished jobs", ("5,000", "50,000", "ratio"))
    small, large = peak(5_000), peak(50_000)
    table.add("bytes", small, large, large / small, goals=[at_most(large / small, 1.1)])
    return table


def main() -> None:
    """Everything."""
    workload = the_log()
    seconds(lambda: run(generate("poisson", 0, Shape(jobs=500)), "easy-backfill"))
    speed(workload).show()
    memory().show()


if __name__ == "__main__":
    main()
