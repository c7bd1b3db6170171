"""What the disk itself can do: the floor under everything that promises durability."""

from __future__ import annotations

import os
import statistics
import tempfile
import time


def fdatasync_ms(samples: int = 300, pause: float = 0.0) -> float:
    """Milliseconds to write 4 KiB and have it on the disk, p50; with a pause, on a machine that was idle before."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(samples):
            time.sleep(pause)
            begin = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 4096, 0)
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begin) * 1000)
    return statistics.median(taken)
