"""What every benchmark shares: a stopwatch that distrusts a busy machine, and a table with goals beside the figures."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes, once."""
    begin = perf_counter()
    work()
    return perf_counter() - begin


@dataclass(frozen=True)
class Timing:
    """Seconds of several runs of the same work. The best one is the least disturbed."""

    runs: tuple[float, ...]

    @property
    def best(self) -> float:
        """The shortest run: what the work costs when nobody else wants the machine."""
        return min(self.runs)

    @property
    def median(self) -> float:
        """The middle run: what it cost today."""
        return median(self.runs)


def best_of(n: int, work: Callable[[], object]) -> Timing:
    """Run the work `n` times, with the garbage of the past collected first."""
    gc.collect()
    return Timing(tuple(seconds(work) for _ in range(n)))


def number(value: object) -> str:
    """A figure as people read it: grouped thousands, and as many digits as mean something."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Goal:
    """A figure to reach and whether it was reached; shown, never enforced."""

    text: str
    met: bool

    def __str__(self) -> str:
        return f"{self.text}: {'met' if self.met else 'MISSED'}"


def at_least(value: float, wanted: float, unit: str = "") -> Goal:
    """More is better."""
    return Goal(f">= {number(wanted)}{unit}", value >= wanted)


def at_most(value: float, wanted: float, unit: str = "") -> Goal:
    """Less is better."""
    return Goal(f"<= {number(wanted)}{unit}", value <= wanted)


@dataclass
class Table:
    """Rows of figures under a title; goals stand at the end of their row."""

    title: str
    columns: Sequence[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, label: str, *figures: object, goals: Iterable[Goal] = ()) -> None:
        """Add a row; figures that are left out stay empty."""
        cells = [number(figure) for figure in figures]
        cells += [""] * (len(self.columns) - len(cells))
        self.rows.append((label, *cells, ", ".join(map(str, goals))))

    def render(self) -> str:
        """The table as text: labels to the left, figures to the right."""
        lines = [("", *self.columns, "goal" if any(row[-1] for row in self.rows) else ""), *self.rows]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.columns) + 2)]
        return "\n".join([self.title, *(_line(line, widths) for line in lines)])

    def show(self) -> None:
        """Print it, with an empty line after it."""
        print(self.render(), end="\n\n", flush=True)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    label, *figures, goal = cells
    middle = (figure.rjust(width) for figure, width in zip(figures, widths[1:-1], strict=True))
    return "  ".join(["", label.ljust(widths[0]), *middle, goal]).rstrip()
