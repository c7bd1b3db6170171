"""The no-op job of the end to end benchmark, for worker processes of Headgate."""

from __future__ import annotations

import os

import headgate
from bench.marks import mark

app = headgate.App(os.environ.get("BENCH_DB", "memory://"), load=0, settings=headgate.Settings(total_units=1_000_000))


@app.job()
def noop(number: int, text: str) -> None:  # noqa: ARG001 - a payload of a hundred bytes travels along
    """Nothing, visibly."""
    mark(number)
