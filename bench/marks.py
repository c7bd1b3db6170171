"""Marks: every run of a job writes one 16-byte record (number, monotonic ns) to a file in memory, about 2 us.

That is how starts are counted and timed from outside, in the same way for every queue.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

RECORD = struct.Struct("<qq")
PATH = Path(os.environ.get("BENCH_MARKS", f"/dev/shm/headgate_bench_{os.getuid()}"))  # noqa: S108 - see above
_descriptors: list[int] = []


def mark(number: int) -> None:
    """A job has begun."""
    now = time.monotonic_ns()
    if not _descriptors:
        _descriptors.append(os.open(PATH, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    os.write(_descriptors[0], RECORD.pack(number, now))


def clear() -> None:
    """Forget all marks, without making a new file: workers hold the old one open."""
    PATH.touch()
    os.truncate(PATH, 0)


def count() -> int:
    """How many there are."""
    return os.stat(PATH).st_size // RECORD.size  # noqa: PTH116 - half of what a Path takes, and it is asked often


def read() -> list[tuple[int, int]]:
    """All of them, in the order they were written."""
    data = PATH.read_bytes()
    return [RECORD.unpack_from(data, place) for place in range(0, len(data) // 16 * 16, 16)]


def wait_or_give_up(wanted: int, within: float) -> int:
    """Wait until there are so many, but no longer than so many seconds; how many there are.

    It looks seldom: a queue may live in this very process, and the times are in the marks.
    """
    end = time.monotonic() + within
    while (found := count()) < wanted and time.monotonic() < end:
        time.sleep(0.005)
    return found
