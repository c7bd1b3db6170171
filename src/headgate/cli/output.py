"""What a command prints: JSON for programs, aligned text for people, colour only on a terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "grey": 90, "bold": 1}
STATES = {
    "running": "green",
    "leased": "green",
    "completed": "blue",
    "failed": "red",
    "expired": "red",
    "cancelled": "grey",
    "queued": "yellow",
    "blocked": "yellow",
}


def colourful() -> bool:
    """Whether standard output is a terminal that wants colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str | None) -> str:
    """A text in a colour, where there are colours."""
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if colour and colourful() else text


def state(name: str) -> str:
    """A job's state in its colour."""
    return paint(name, STATES.get(name))


def emit(arguments: argparse.Namespace, data: Any, show: Callable[[Any], None]) -> None:
    """Print data as `--json` asks, else for people."""
    if arguments.json:
        print(json.dumps(data, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))
    else:
        show(data)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns that line up; an empty table still shows what it would hold."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max([len(name), *(_width(row[at]) for row in cells)]) for at, name in enumerate(header)]
    lines = [[paint(name.upper(), "grey") for name in header], *cells]
    for line in lines:
        padded = [cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip())


def pairs(rows: Iterable[tuple[str, Any]]) -> None:
    """Print names with their values, leaving out what is not there."""
    known = [(name, value) for name, value in rows if value not in (None, "", {}, [], ())]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        print(f"{paint(name + ':', 'grey')}{' ' * (width - len(name))} {_cell(value)}")


def field(data: Any, path: str) -> str:
    """One field by its path, such as `labels.pid`; empty if it is not there."""
    for name in path.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    if isinstance(data, dict | list):
        return json.dumps(data)
    return "" if data is None else str(data)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, dict):
        return " ".join(f"{name}={_cell(item)}" for name, item in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "-"
    return "yes" if value is True else "no" if value is False else str(value)


def _width(text: str) -> int:
    """The columns a text takes: colours take none."""
    if "\x1b" not in text:
        return len(text)
    total, inside = 0, False
    for char in text:
        inside = inside or char == "\x1b"
        total += not inside
        inside = inside and char != "m"
    return total


def age(seconds: float | None) -> str:
    """A span of time, short."""
    if seconds is None:
        return "-"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds >= 10 else f"{max(0.0, seconds):.1f}s"


def rating(busy: float) -> str:
    """A rating with a colour for how much it leaves."""
    colour = "green" if busy < 4 else "yellow" if busy < 8 else "red"
    return paint(f"{busy:.1f} of 10", colour)
