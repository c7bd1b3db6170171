"""Charts as SVG text: lines, steps, bars of intervals, Gantt. Their colours can be read on light and on dark paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from headgate.sim.records import JobRecord

WIDTH, HEIGHT = 860, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 20, 40
_MOST_BARS = 1_500

COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d", "#dc2626")
STYLE = """
.tick, .label { font-size: 11px; font-family: system-ui, "DejaVu Sans", sans-serif; fill: #7b8794; }
.label { fill: #6b7683; }
.grid { stroke: #9aa5b1; stroke-opacity: .35; } .zero { stroke: #7b8794; stroke-dasharray: 3 3; }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round; opacity: .9; } .bar { stroke-width: 3; }
.job { stroke: #ffffff; stroke-opacity: .55; stroke-width: .5; }
""" + "".join(
    f".s{n}.line, .s{n}.bar {{ stroke: {colour}; }} .s{n}.job, .s{n}.dot {{ fill: {colour}; }}\n"
    for n, colour in enumerate(COLOURS)
)
Point = tuple[float, float]
Ticks = list[tuple[float, str]]
_TIMES = ((1.0, "seconds"), (60.0, "minutes"), (3_600.0, "hours"), (86_400.0, "days"))
_MOMENTS = (
    *((1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3_600, "1 h"), (36_000, "10 h")),
    *((86_400, "1 d"), (864_000, "10 d"), (8_640_000, "100 d")),
)


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit in which a span of time has few digits: its seconds and its name."""
    return next(((size, name) for size, name in reversed(_TIMES) if abs(seconds) >= 3 * size), _TIMES[0])


def nice_steps(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two others."""
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A number that fits beside an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def moments(low: float, high: float) -> Ticks:
    """Spans of time that people know, on a logarithmic axis."""
    found = [(math.log10(seconds), name) for seconds, name in _MOMENTS]
    return [tick for tick in found if low <= tick[0] <= high]


def powers(low: float, high: float) -> Ticks:
    """Powers of ten on a logarithmic axis."""
    return [(float(n), short(10.0**n)) for n in range(math.ceil(low), math.floor(high) + 1)]


class _Frame:
    """Where values lie on the paper."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], height: int = HEIGHT) -> None:
        self.x0, self.x1 = x if x[1] > x[0] else (x[0], x[0] + 1)
        self.y0, self.y1 = y if y[1] > y[0] else (y[0], y[0] + 1)
        self.height = height

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x0) / (self.x1 - self.x0) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self.height - _BOTTOM - (value - self.y0) / (self.y1 - self.y0) * (self.height - _TOP - _BOTTOM)

    def axes(self, x_label: str, y_label: str, ticks: Ticks | None = None) -> list[str]:
        out = []
        for value in nice_steps(self.y0, self.y1):
            at = self.y(value)
            out.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
            out.append(f'<text class="tick" text-anchor="end" x="{_LEFT - 6}" y="{at + 4:.1f}">{short(value)}</text>')
        for value, name in ticks or [(step, short(step)) for step in nice_steps(self.x0, self.x1, 8)]:
            at, low = self.x(value), self.height - _BOTTOM
            out.append(f'<text class="tick" text-anchor="middle" x="{at:.1f}" y="{low + 16}">{escape(name)}</text>')
        middle = (WIDTH + _LEFT) / 2
        out.append(
            f'<text class="label" text-anchor="middle" x="{middle:.0f}" y="{self.height - 6}">{escape(x_label)}</text>'
        )
        out.append(f'<text class="label" x="{_LEFT}" y="{_TOP - 8}">{escape(y_label)}</text>')
        return out


def _svg(parts: Sequence[str], title: str, height: int = HEIGHT) -> str:
    body = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title, quote=True)}"><title>{escape(title)}</title>{body}</svg>'
    )


def standalone(chart: str, names: Sequence[str] = ()) -> str:
    """A chart as a file of its own, with its colours and who is who."""
    return chart.replace("<title>", f"<style>{STYLE}</style><title>", 1).replace("</svg>", f"{_legend(names)}</svg>")


def _legend(names: Sequence[str]) -> str:
    out, at = [], _LEFT + 90
    for number, name in enumerate(names):
        out.append(f'<rect class="s{number % 8} dot" x="{at}" y="{_TOP - 17}" width="9" height="9" rx="2"/>')
        out.append(f'<text class="label" x="{at + 14}" y="{_TOP - 8}">{escape(name)}</text>')
        at += 34 + 7 * len(name)
    return "".join(out)


def lines(
    series: Mapping[str, Sequence[Point]],
    title: str,
    x_label: str,
    y_label: str,
    *,
    steps: bool = False,
    ticks: Callable[[float, float], Ticks] | None = None,
) -> str:
    """One line for each name; `steps` holds each value until the next; `ticks` marks the axis between two values."""
    every = [point for points in series.values() for point in points] or [(0.0, 0.0)]
    frame = _Frame(
        (min(x for x, _ in every), max(x for x, _ in every)),
        (min(0.0, *(y for _, y in every)), max(y for _, y in every)),
    )
    parts = frame.axes(x_label, y_label, ticks(frame.x0, frame.x1) if ticks is not None else None)
    for number, (name, points) in enumerate(series.items()):
        path = _path(frame, points, steps=steps)
        parts.append(f'<path class="line s{number % 8}" d="{path}"><title>{escape(name)}</title></path>')
    return _svg(parts, title)


def _path(frame: _Frame, points: Sequence[Point], *, steps: bool) -> str:
    out: list[str] = []
    for x, y in points:
        if out and steps:
            out.append(f"H{frame.x(x):.1f}")
            out.append(f"V{frame.y(y):.1f}")
        else:
            out.append(f"{'L' if out else 'M'}{frame.x(x):.1f} {frame.y(y):.1f}")
    return "".join(out)


def over_time(series: Mapping[str, Sequence[Point]], title: str, y_label: str) -> str:
    """Steps over seconds, shown in a unit with few digits."""
    size, unit = time_unit(max((x for points in series.values() for x, _ in points), default=0.0))
    scaled = {name: [(x / size, y) for x, y in points] for name, points in series.items()}
    return lines(scaled, title, unit, y_label, steps=True)


def cumulative(
    values: Mapping[str, Sequence[float]], title: str, x_label: str, ticks: Callable[[float, float], Ticks] = powers
) -> str:
    """The share of jobs at or below a value; the axis of values is logarithmic from one on."""
    series: dict[str, Sequence[Point]] = {}
    for name, given in values.items():
        ordered = sorted(given)
        picks = range(0, len(ordered), max(1, len(ordered) // 200))
        series[name] = [(math.log10(max(1.0, ordered[n])), (n + 1) / len(ordered) * 100) for n in picks]
        if ordered:
            series[name] = [*series[name], (math.log10(max(1.0, ordered[-1])), 100.0)]
    return lines(series, title, x_label, "% of jobs", ticks=ticks)


def intervals(rows: Sequence[tuple[str, float, float, float]], title: str, x_label: str) -> str:
    """Means with their intervals around a line at zero."""
    height = _TOP + _BOTTOM + 34 * max(1, len(rows))
    low, high = min([0.0, *(row[2] for row in rows)]), max([0.0, *(row[3] for row in rows)])
    frame = _Frame((low, high), (0, 1), height)
    frame_axes = [part for part in frame.axes(x_label, "") if "grid" not in part and 'text-anchor="end"' not in part]
    zero = frame.x(0.0)
    parts = [*frame_axes, f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>']
    for number, (name, mean, left, right) in enumerate(rows):
        at = _TOP + 34 * number + 20
        colour, begin, end = f"s{(number + 1) % 8}", frame.x(left), frame.x(right)
        parts.append(
            f'<line class="bar {colour}" x1="{begin:.1f}" x2="{end:.1f}" y1="{at}" y2="{at}"/>'
            f'<circle class="dot {colour}" cx="{frame.x(mean):.1f}" cy="{at}" r="5"/>'
            f'<text class="label" x="{_LEFT}" y="{at - 8}">{escape(name)}</text>'
        )
    return _svg(parts, title, height)


def gantt(records: Sequence[JobRecord], tick: float, title: str, *, most: int = _MOST_BARS) -> str:
    """Who ran when: each job takes the first lane that is free. Of many jobs, the first ones."""
    started = sorted((r for r in records if r.started is not None), key=lambda r: (r.started or 0, r.id))[:most]
    lanes: list[int] = []
    bars: list[tuple[int, JobRecord]] = []
    for record in started:
        begin = record.started or 0
        lane = next((n for n, until in enumerate(lanes) if until <= begin), len(lanes))
        lanes[lane : lane + 1] = [record.ended]
        bars.append((lane, record))
    row = 12 if len(lanes) <= 60 else 4
    height = _TOP + _BOTTOM + row * max(1, len(lanes))
    last = max((r.ended for r in started), default=1) * tick
    size, unit = time_unit(last)
    tick /= size
    frame = _Frame((min((r.started or 0 for r in started), default=0) * tick, last / size), (0, 1), height)
    parts = [part for part in frame.axes(unit, "") if "grid" not in part and 'text-anchor="end"' not in part]
    names = {name: number for number, name in enumerate(sorted({record.tenant for record in started}))}
    for lane, record in bars:
        left, right = frame.x((record.started or 0) * tick), frame.x(record.ended * tick)
        tip = f"{record.id}: {record.units} units, {record.tenant}, {record.run * tick * size:g} s on {record.worker}"
        parts.append(
            f'<rect class="job s{names[record.tenant] % 8}" x="{left:.1f}" y="{_TOP + lane * row}" '
            f'width="{max(1.0, right - left):.1f}" height="{row - 1}"><title>{escape(tip)}</title></rect>'
        )
    return _svg(parts, title, height)
