"""Written once: the SDK is coroutines that do their input and output through a hop.

With the inline hop nothing ever waits for a loop, so a coroutine runs to its end in the caller's thread: that is the
synchronous edge. With the threaded hop the same coroutine belongs to an event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_THREADS = 64


class Hop(Protocol):
    """How a blocking call is made."""

    async def __call__(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make it."""
        ...

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        ...


class Inline:
    """Here and now."""

    async def __call__(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make the call in this thread."""
        return call(*args, **kwargs)

    async def pause(self, seconds: float) -> None:
        """Block this thread."""
        threading.Event().wait(seconds)


class Threaded:
    """In a thread, so that the event loop goes on."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    async def __call__(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make the call in another thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, "headgate-aio")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))

    async def pause(self, seconds: float) -> None:
        """Let the event loop do other things."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Let go of the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def finish(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine over the inline hop to its end."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # what the coroutine returned
    coroutine.close()
    raise RuntimeError("a call waited for an event loop, although there is none")
