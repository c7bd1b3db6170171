"""The world of a simulation: one time line, one source of chance, one trace. The same seed makes the same world."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter, deque
from collections.abc import Callable

START = 100_000_000
"""The true time at which a simulation begins, far enough from zero for clocks that run hours behind."""
KEPT_LINES = 400


class Violation(Exception):
    """Something happened that must never happen."""


class World:
    """What is due when. Actors plan actions; the world carries them out in order."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = START
        self.steps = 0
        self.calm = False
        """Whether faults have stopped for good."""
        self.seen: Counter[str] = Counter()
        """What has gone wrong, and how often."""
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._digest = hashlib.blake2b(digest_size=16)
        self._plan: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Carry out an action some milliseconds from now."""
        self._planned += 1
        heapq.heappush(self._plan, (self.now + delay, self._planned, action))

    def step(self) -> None:
        """Carry out the next action."""
        self.now, _, action = heapq.heappop(self._plan)
        self.steps += 1
        action()

    def odds(self, share: float) -> bool:
        """True in this share of all cases."""
        return self.chance.random() < share

    def strikes(self, fault: str, share: float) -> bool:
        """Whether a fault happens now; it is counted."""
        struck = self.odds(share)
        self.seen[fault] += struck
        return struck

    def note(self, line: str) -> None:
        """Add a line to the trace."""
        text = f"{self.now - START:>8} {line}"
        self._digest.update(text.encode())
        self.lines.append(text)

    def fingerprint(self) -> str:
        """Equal traces, equal fingerprints."""
        return self._digest.hexdigest()
