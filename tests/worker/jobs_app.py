"""An app whose jobs are run by worker processes of the tests; where it lives is told by whoever starts them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import headgate
from headgate.core.settings import Settings
from headgate.system import SystemClock

app = headgate.App("memory://", load=0, settings=Settings(total_units=1_000_000, fixed_busy=0))
_clock = SystemClock()


def note(path: str, text: str) -> None:
    """One line, in one piece, whoever else writes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, (text + "\n").encode())
    os.close(descriptor)


@app.job()
def mark(path: str, number: int, seconds: float = 0.0) -> int:
    """Say when it begins and ends, and where."""
    note(path, f"begin {number} {os.getpid()} {_clock.now()}")
    if seconds:
        headgate.current_job().wait(seconds)
    note(path, f"end {number} {os.getpid()} {_clock.now()}")
    return number


@app.job()
def deaf(path: str, seconds: float) -> str:
    """Does not look whether it should stop."""
    note(path, f"begin deaf {os.getpid()} {_clock.now()}")
    threading.Event().wait(seconds)
    note(path, f"end deaf {os.getpid()} {_clock.now()}")
    return "late"


@app.job()
def kills_its_worker(path: str) -> None:
    note(path, f"begin killer {os.getpid()} {_clock.now()}")
    os.kill(os.getpid(), signal.SIGKILL)


@app.job()
def whoami() -> dict[str, Any]:
    sys.stdout.write("said aloud\n")
    return {"pid": os.getpid(), "attempt": headgate.current_job().attempt}


@app.job()
def leaves(how: str) -> None:
    if how == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    os._exit(7)
