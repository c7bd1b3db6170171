"""Keys as they are pressed, without waiting for a line; the terminal is as it was before afterwards."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

END = "q"
"""What a terminal that is gone counts as."""


@contextmanager
def single_keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for keys; what was pressed, empty for nothing."""
    if not sys.stdin.isatty():
        from headgate.bootstrap.machine import pause

        def rest(seconds: float) -> str:
            pause(seconds)
            return ""

        yield rest
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield lambda seconds: _pressed(terminal, seconds)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _pressed(terminal: int, seconds: float) -> str:
    ready, _, _ = select.select([terminal], [], [], seconds)
    if not ready:
        return ""
    try:
        return os.read(terminal, 1_024).decode("utf-8", "replace") or END
    except OSError:
        return END
