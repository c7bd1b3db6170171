"""Child processes that are kept alive: one that ends is started again, later and later while it keeps ending.

One that never gets anywhere is given up, which is said: the reason lies in it, and will not go away by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence

import msgspec

from headgate.bootstrap.open_files import Limits, restore_limit

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
HEALTHY = 60.0
"""Seconds of life after which an end counts as the first again."""
ALIVE = 1.0
"""Seconds of life after which one that was killed is replaced without delay; sooner, memory may be what it lacks."""
AT_ONCE = 10.0
"""Seconds of life within which a child did not get anywhere."""
GIVE_UP = 10
"""Ends at once, one after the other, that are enough."""
_NOT_ITS_OWN = (-signal.SIGKILL, -signal.SIGTERM)
"""Ends that somebody else brought about; they say nothing of how the next start will go."""


class Ended(msgspec.Struct, frozen=True):
    """A child ended that should not have."""

    name: str
    how: str
    again_in: float | None
    """Seconds; none: it is given up."""


class Restarts:
    """When a process that ends is started again: later and later, and never if it keeps ending at once."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE
        self._at_once = 0

    def after(self, code: int, lived: float) -> float | None:
        """Seconds to wait before the next start; none: it is given up."""
        if code in _NOT_ITS_OWN and lived >= ALIVE:
            return FIRST_PAUSE
        if lived >= HEALTHY:
            self._pause = FIRST_PAUSE
        if code not in _NOT_ITS_OWN:
            self._at_once = self._at_once + 1 if lived < AT_ONCE else 0
        if self._at_once >= GIVE_UP:
            return None
        pause, self._pause = self._pause, min(LONGEST_PAUSE, self._pause * 2)
        return pause


class Child:
    """One process that is wanted alive."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        report: Callable[[Ended], None],
        now: Callable[[], int],
        files: Limits | None = None,
    ) -> None:
        self.name = name
        self.restarts = 0
        self.given_up = False
        self._argv = tuple(argv)
        self._environment = dict(environment)
        self._report = report
        self._now = now
        self._files = files
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The process as it is now."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def start(self) -> None:
        """Start the process and keep it."""
        await self._spawn()
        self._keeping = asyncio.get_running_loop().create_task(self._keep(), name=f"keep-{self.name}")

    async def stop(self, grace: float) -> None:
        """Ask it to end, wait so many seconds, then end it with everything it started."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        if self._keeping is None:
            return
        done, _ = await asyncio.wait({self._keeping}, timeout=grace)
        if not done:
            self.kill()
        await self._keeping

    def kill(self) -> None:
        """End it now."""
        self._stopping.set()
        self._signal(signal.SIGKILL)

    def _signal(self, which: signal.Signals) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                # killed, it cannot end its own children any more: the whole group goes
                (os.killpg if which == signal.SIGKILL else os.kill)(self.pid, which)

    async def _spawn(self) -> None:
        # a session of its own: Ctrl-C reaches only the head of the family, who ends everybody in order
        self._process = await asyncio.create_subprocess_exec(
            *self._argv, env=self._environment, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )
        if self._files is not None:
            restore_limit(self._process.pid, self._files)

    async def _keep(self) -> None:
        restarts = Restarts()
        while self._process is not None:
            began = self._now()
            code = await self._process.wait()
            if self._stopping.is_set():
                return
            pause = restarts.after(code, (self._now() - began) / 1000)
            self.given_up = pause is None
            self._report(Ended(self.name, how_it_ended(code), pause))
            if pause is None:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
                return
            self.restarts += 1
            await self._spawn()


def how_it_ended(code: int) -> str:
    """The exit code or the signal, in words."""
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
