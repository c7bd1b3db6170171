"""The clock and the waiting that commands need; everything else takes time as an argument."""

from __future__ import annotations

import signal
import threading

from headgate.system import SystemChance, SystemClock, stopwatch

__all__ = ["chance", "now_ms", "pause", "stopwatch", "told_to_stop"]

_clock = SystemClock()
chance = SystemChance()


def now_ms() -> int:
    """Milliseconds since 1970."""
    return _clock.now()


def pause(seconds: float) -> None:
    """Wait; Ctrl-C ends it."""
    threading.Event().wait(seconds)


def told_to_stop() -> threading.Event:
    """Set when SIGTERM or Ctrl-C comes, from now on."""
    told = threading.Event()
    for which in (signal.SIGTERM, signal.SIGINT):
        signal.signal(which, lambda *_: told.set())
    return told
