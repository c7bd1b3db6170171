"""The place of one policy version: its source, and the child that runs it, or the birth it waits for."""

from __future__ import annotations

from headgate.policy.processes import Child
from headgate.policy.stopwatch import seconds


class Seat:
    """A policy in charge, or one about to be. Deltas told while its child is being forked are kept for the
    child.
    """

    def __init__(self, source: bytes, version: str) -> None:
        self.source = source
        self.version = version
        self.child: Child | None = None
        self.expecting = False
        self._meanwhile: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Deltas, encoded."""
        if self.child is not None:
            self.child.feed(data)
        elif self.expecting:
            self._meanwhile.append(data)

    def expect(self) -> None:
        """A fork has been asked for: from here on the host knows more than the child will."""
        self.expecting = True
        self._meanwhile.clear()

    def adopt(self, child: Child) -> None:
        """The child is born."""
        self.child, self.expecting = child, False
        for data in self._meanwhile:
            child.feed(data)
        self._meanwhile.clear()

    def drop(self) -> None:
        """Kill the child, if there is one; a birth that is still expected will not be adopted."""
        if self.child is not None:
            self.child.kill()
        self.child, self.expecting = None, False
        self._meanwhile.clear()

    @property
    def ready(self) -> bool:
        """Whether it can be asked."""
        return self.child is not None and self.child.ready

    def overdue(self, limit_s: float) -> bool:
        """Whether the child should have said hello by now."""
        return self.child is not None and self.child.hello is None and seconds() > self.child.born + limit_s
