"""The same no-op job for Huey on SQLite, where it is installed."""

from __future__ import annotations

import os

from huey import SqliteHuey

from bench.marks import mark

huey = SqliteHuey("bench", filename=os.environ["BENCH_HUEY"])


@huey.task()  # type: ignore[untyped-decorator]  # Huey ships no types
def noop(number: int, text: str) -> None:  # noqa: ARG001 - a payload of a hundred bytes travels along
    """Nothing, visibly."""
    mark(number)
