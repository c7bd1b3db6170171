"""Simulations as the command line asks for them: words become workloads, clusters and policies."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headgate import sim
from headgate.bootstrap.engine import database_path, open_store
from headgate.bootstrap.home import CannotWrite
from headgate.bootstrap.upkeep import backup
from headgate.core.errors import InvalidInput
from headgate.core.quantities import duration, instant
from headgate.ports import Store
from headgate.sim.charts import charts, difference_charts, need_resvg, write_png, write_svg
from headgate.sim.pulse import Watch
from headgate.sim.results import need_pyarrow

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
    limit: str | None = None
    """How long one run may take, such as 30s; it is cut there."""


def prepare(asked: Asked, seed: int = 0) -> tuple[sim.Workload, sim.Cluster]:
    """The jobs and the machine."""
    workload = _workload(asked)(seed)
    return workload, _cluster(asked, workload)


def run(asked: Asked, policy: str, seed: int = 0, watch: Watch | None = None) -> sim.Results:
    """One policy."""
    workload, cluster = prepare(asked, seed)
    return sim.run(workload, policy, cluster, seed=seed, watch=watch, limit_s=_limit(asked))


def compare(asked: Asked, policies: Sequence[str], seeds: int = 1, watch: Watch | None = None) -> sim.Comparison:
    """Several, paired; a generator makes a workload for each seed."""
    if seeds < 1:
        raise InvalidInput("must be at least 1", field="seeds")
    make = _workload(asked)
    first = make(0)
    given = make if asked.workload in GENERATORS else first
    return sim.compare(
        given, policies, _cluster(asked, first), seeds=range(seeds), watch=watch, limit_s=_limit(asked)
    )  # fmt: skip


def _limit(asked: Asked) -> float | None:
    return None if asked.limit is None else duration(asked.limit, "limit") / 1000


def refuse_unwritable(files: Sequence[str | None], *, parquet: str | None = None, png: str | None = None) -> None:
    """Say what cannot be written before hours are spent on what to write."""
    if parquet:
        need_pyarrow()
    if png:
        need_resvg()
    for file in filter(None, (*files, parquet)):
        path = Path(file)
        if path.is_dir() or not path.parent.is_dir():
            what = "this is a directory" if path.is_dir() else f"the directory {path.parent} does not exist"
            raise CannotWrite(f"{path}: {what}")


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
    """A file is copied first: its server may go on, and nothing in it changes."""
    begin = None if since is None else instant(since, "since")
    end = None if until is None else instant(until, "until")
    path = database_path(url)
    if path is None:
        return _read_store(open_store(url), begin, end, Path(url).stem)
    with tempfile.TemporaryDirectory(prefix="headgate-import-") as directory:
        copy = Path(directory) / "copy.db"
        backup(url, str(copy))
        return _read_store(open_store(str(copy)), begin, end, path.stem)


def _read_store(store: Store, begin: int | None, end: int | None, name: str) -> sim.Workload:
    store.open()
    try:
        return sim.read_history(store, since=begin, until=end, name=name)
    finally:
        store.close()


def _workload(asked: Asked) -> Callable[[int], sim.Workload]:
    if asked.workload in GENERATORS:
        if asked.jobs < 1:
            raise InvalidInput("must be at least 1", field="jobs")
        given = {"processors": asked.processors, "load": asked.load}
        shape = sim.Shape(jobs=asked.jobs, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        return lambda seed: sim.generate(asked.workload, seed, shape)
    if not Path(asked.workload).exists() and not Path(asked.workload).suffix:
        known = ", ".join(GENERATORS)
        raise InvalidInput(f"{asked.workload!r} is neither a file nor one of {known}", field="workload")
    workload = sim.read_workload(asked.workload, asked.format)
    if asked.load is not None:
        workload = sim.with_load(workload, asked.load)
    return lambda _: workload


def _cluster(asked: Asked, workload: sim.Workload) -> sim.Cluster:
    cluster = sim.cluster_for(workload) if asked.processors is None else sim.machine(asked.processors)
    return sim.Changes(asked.scale, asked.without_pools).cluster(cluster)
