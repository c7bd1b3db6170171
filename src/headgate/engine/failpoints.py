"""Failpoints: named places where a test can make the engine stop, fail or die. Without a hook they cost nothing.

The places: `commit.before` (nothing is durable yet), `commit.written` (in the transaction, not sealed),
`commit.after` (durable, nobody was told), `reply.after` (everybody was told), `recover.after` (state rebuilt).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

FAILPOINTS: Final = ("commit.before", "commit.written", "commit.after", "reply.after", "recover.after")
Hook = Callable[[str], None]


def from_text(text: str) -> Hook:
    """Read `name=kill:3` (die by SIGKILL at the third passage); several are separated by commas."""
    left: dict[str, int] = {}
    for part in text.split(","):
        name, _, action = part.partition("=")
        verb, _, count = action.partition(":")
        if name not in FAILPOINTS or verb != "kill" or not (count or "1").isdigit():
            raise ValueError(f"{part!r} is not a failpoint; write for example commit.after=kill:3")
        left[name] = int(count or "1")
    return _Killer(left)


class _Killer:
    def __init__(self, left: dict[str, int]) -> None:
        self._left = left

    def __call__(self, name: str) -> None:
        if name in self._left:
            self._left[name] -= 1
            if self._left[name] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
