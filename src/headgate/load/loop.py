"""Doing something again and again: as a thread or as a task, on a wait that is handed in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from headgate.core.errors import InvalidInput

Wait = Callable[[float], bool]
"""Waits so many seconds and answers whether it is enough."""


def repeat(step: Callable[[], object], every: int, wait: Wait, *, first_after: int = 0) -> None:
    """Take a step every so many milliseconds until `wait` answers that it is enough."""
    if first_after and wait(first_after / 1000):
        return
    step()
    while not wait(every / 1000):
        step()


async def repeat_async(
    step: Callable[[], Awaitable[object]],
    every: int,
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
    *,
    first_after: int = 0,
) -> None:
    """The same until cancelled."""
    if first_after:
        await wait(first_after / 1000)
    while True:
        await step()
        await wait(every / 1000)


class Repeating:
    """A thread that repeats a step until it is stopped. Starting or stopping twice is the same as once."""

    def __init__(self, name: str, every: int, first_after: int = 0) -> None:
        if every <= 0:
            raise InvalidInput("must be greater than zero", field="poll")
        self._name = name
        self._every = every
        self._first_after = first_after
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, step: Callable[[], object]) -> None:
        """Begin."""
        if self._thread is not None:
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(step,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the step that is under way."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, step: Callable[[], object]) -> None:
        repeat(step, self._every, self._stop.wait, first_after=self._first_after)
