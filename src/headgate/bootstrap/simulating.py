"""Simulations as the command line asks for them: words become workloads, clusters and policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headgate import sim
from headgate.bootstrap.engine import open_store
from headgate.core.quantities import instant
from headgate.sim.charts import charts, difference_charts, write_png, write_svg

GENERATORS = sim.GENERATORS
Shape = sim.Shape
summary, comparison = sim.summary, sim.comparison
write_csv, write_parquet = sim.write_csv, sim.write_parquet
write_report, compare_report = sim.write_report, sim.compare_report


class Asked(msgspec.Struct, frozen=True):
    """What to simulate: a file or a generator, and what is changed about it."""

    workload: str
    format: str | None = None
    jobs: int = 1_000
    processors: int | None = None
    load: float | None = None
    """For a generator the share of the machine that is asked for; for a file how much faster jobs arrive."""
    scale: float = 1.0
    without_pools: tuple[str, ...] = ()


def prepare(asked: Asked, seed: int = 0) -> tuple[sim.Workload, sim.Cluster]:
    """The jobs and the machine."""
    workload = _workload(asked)(seed)
    return workload, _cluster(asked, workload)


def run(asked: Asked, policy: str, seed: int = 0) -> sim.Results:
    """One policy."""
    workload, cluster = prepare(asked, seed)
    return sim.run(workload, policy, cluster, seed=seed)


def compare(asked: Asked, policies: Sequence[str], seeds: int = 1) -> sim.Comparison:
    """Several, paired; a generator makes a workload for each seed."""
    make = _workload(asked)
    first = make(0)
    given = make if asked.workload in GENERATORS else first
    return sim.compare(given, policies, _cluster(asked, first), seeds=range(max(1, seeds)))


def generate(model: str, seed: int, shape: sim.Shape, target: str) -> sim.Workload:
    """Make a workload and write it in our own format."""
    workload = sim.generate(model, seed, shape)
    sim.write_jsonl(workload, target)
    return workload


def convert(
    source: str, target: str, format_: str | None = None, *, database: bool = False, since: str | None = None,
    until: str | None = None,
) -> sim.Workload:  # fmt: skip
    """A file of any format, or what a database remembers, in our own format."""
    workload = _history(source, since, until) if database else sim.read_workload(source, format_)
    sim.write_jsonl(workload, target)
    return workload


def draw(shown: sim.Results | sim.Comparison, svg: str | None, png: str | None) -> list[Path]:
    """Write the charts of a run or a comparison as files; which ones were written."""
    if isinstance(shown, sim.Comparison):
        made = [*difference_charts(shown), *charts([shown.runs[name][0] for name in shown.policies])]
    else:
        made = charts([shown])
    written = write_svg(svg, made) if svg else []
    return written + (write_png(png, made) if png else [])


def plain(results: sim.Results) -> dict[str, Any]:
    """A run as JSON, without its jobs one by one."""
    small = msgspec.structs.replace(results, records=[], grants=[], series=[])
    found: dict[str, Any] = msgspec.to_builtins(small)
    return {name: value for name, value in found.items() if name not in ("records", "grants", "series")}


def plain_comparison(compared: sim.Comparison) -> dict[str, Any]:
    """A comparison as JSON."""
    runs = {name: [plain(results) for results in row] for name, row in compared.runs.items()}
    return {"policies": compared.policies, "runs": runs, "differences": msgspec.to_builtins(compared.differences)}


def outcome_text(plain_outcome: dict[str, Any]) -> str:
    """An outcome as a server told it, for people."""
    return sim.outcome_text(msgspec.convert(plain_outcome, sim.Outcome))


def _history(url: str, since: str | None, until: str | None) -> sim.Workload:
    store = open_store(url)
    store.open()
    try:
        begin = None if since is None else instant(since, "since")
        end = None if until is None else instant(until, "until")
        return sim.read_history(store, since=begin, until=end, name=Path(url).stem)
    finally:
        store.close()


def _workload(asked: Asked) -> Callable[[int], sim.Workload]:
    if asked.workload in GENERATORS:
        defaults = sim.Shape()
        shape = sim.Shape(
            jobs=asked.jobs, processors=asked.processors or defaults.processors, load=asked.load or defaults.load
        )
        return lambda seed: sim.generate(asked.workload, seed, shape)
    workload = sim.read_workload(asked.workload, asked.format)
    if asked.load is not None:
        workload = sim.with_load(workload, asked.load)
    return lambda _: workload


def _cluster(asked: Asked, workload: sim.Workload) -> sim.Cluster:
    cluster = sim.machine(asked.processors) if asked.processors else sim.cluster_for(workload)
    return sim.Changes(asked.scale, asked.without_pools).cluster(cluster)
