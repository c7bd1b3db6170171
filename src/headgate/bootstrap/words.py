"""What a running service says to the terminal it was started from."""

from __future__ import annotations

import contextlib
import sys


def say(text: str) -> None:
    """One line on standard error; a terminal that is gone is no reason to stop."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"headgate: {text}\n")
        sys.stderr.flush()


def show(text: str) -> None:
    """What was asked for, on standard output."""
    with contextlib.suppress(OSError):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
