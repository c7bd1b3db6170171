"""The charts of a run or a comparison: in the report, and as files of their own in SVG or PNG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from headgate.core.errors import InvalidInput
from headgate.sim import svg
from headgate.sim.compare import Comparison
from headgate.sim.results import Results, figures

_PNG_SCALE = 2


class Chart(msgspec.Struct, frozen=True):
    """One chart: a name for its file, a heading, and its SVG."""

    name: str
    heading: str
    svg: str
    names: tuple[str, ...] = ()
    """Whose lines these are, in the order of their colours."""

    def whole(self) -> str:
        """With all that it needs to stand alone."""
        return svg.standalone(self.svg, self.names)


def charts(runs: Sequence[Results]) -> list[Chart]:
    """What a report shows of one run or several."""
    waits = {results.policy: _values(results, 0) for results in runs}
    slowdowns = {results.policy: _values(results, 2) for results in runs}
    queued = {results.policy: [(s.at * results.tick, float(s.queued)) for s in results.series] for results in runs}
    used = {results.policy: [(s.at * results.tick, float(s.leased_units)) for s in results.series] for results in runs}
    names = tuple(results.policy for results in runs)
    share = "Share of jobs that wait at most so long"
    return [
        Chart("waiting", "Jobs waiting", svg.over_time(queued, "Jobs waiting over time", "jobs"), names),
        Chart("units", "Units in use", svg.over_time(used, "Units in use over time", "units"), names),
        Chart("wait", "Wait", svg.cumulative(waits, share, "wait", svg.moments), names),
        Chart(
            "slowdown",
            "Bounded slowdown",
            svg.cumulative(slowdowns, "Share of jobs by bounded slowdown", "bounded slowdown"),
            names,
        ),
        *(_gantt(results) for results in runs),
    ]


def _values(results: Results, place: int) -> list[float]:
    return [figures(record, results.tick)[place] for record in results.records if record.started is not None]


def _gantt(results: Results) -> Chart:
    chart = svg.gantt(results.records, results.tick, f"Gantt of {results.policy}")
    return Chart(f"gantt-{results.policy}", f"Who ran when: {results.policy}", chart)


def difference_charts(compared: Comparison) -> list[Chart]:
    """How each policy differs from the first, with intervals."""
    found = []
    for metric, name in (("wait", "wait"), ("slowdown", "bounded slowdown")):
        spans = [(d.policy, d.intervals[metric]) for d in compared.differences]
        size, unit = 1.0, name
        if metric == "wait":
            size, time = svg.time_unit(max((abs(end) for _, i in spans for end in (i.low, i.high)), default=0.0))
            unit = f"{time} of wait"
        rows = [(policy, i.mean / size, i.low / size, i.high / size) for policy, i in spans]
        chart = svg.intervals(rows, f"Difference in {unit}", f"{unit}; left of the line is better")
        found.append(Chart(f"difference-{metric}", f"Difference in {unit}", chart))
    return found


def write_svg(directory: str | Path, shown: Sequence[Chart]) -> list[Path]:
    """One file a chart."""
    return [_write(directory, chart, "svg", chart.whole().encode()) for chart in shown]


def need_resvg() -> Any:
    """What draws pictures: an extra that nobody else has to have."""
    try:
        return import_module("resvg_py")
    except ImportError:
        raise InvalidInput("pictures need resvg-py: pip install 'headgate[png]'", field="png") from None


def write_png(directory: str | Path, shown: Sequence[Chart]) -> list[Path]:
    """The same as pictures, twice the size and on white; needs the extra `png`."""
    resvg_py = need_resvg()
    return [
        _write(
            directory,
            chart,
            "png",
            bytes(resvg_py.svg_to_bytes(svg_string=chart.whole(), background="white", zoom=_PNG_SCALE)),
        )
        for chart in shown
    ]


def _write(directory: str | Path, chart: Chart, ending: str, data: bytes) -> Path:
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    target = path / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', chart.name)}.{ending}"
    target.write_bytes(data)
    return target
