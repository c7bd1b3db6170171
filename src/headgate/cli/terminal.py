"""What reaches a terminal: text and colours, never a sequence that moves, clears, renames or answers for its user.

Names, logs and errors come from whoever submitted the work. A terminal obeys what it is sent, so everything that
commands print there passes through here; what goes into a file or a pipe is left as it is.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

_HARMFUL = re.compile(
    "(\x1b\\[[0-9;]{0,32}m)|\r\n?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""Colours, which stay; ends of lines, which all become one; and everything else that is obeyed and not shown."""


def harmless(text: str) -> str:
    """A text in which whatever a terminal would obey, but for colours, can be seen instead."""
    return _HARMFUL.sub(_seen, text)


def _seen(found: re.Match[str]) -> str:
    if found[1] is not None:
        return found[1]
    return "\n" if found[0].startswith("\r") else found[0].encode("unicode_escape").decode()


class Harmless:
    """A stream that lets through only what is harmless."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write it, made harmless."""
        self.stream.write(harmless(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """Let everything that the block prints to a terminal pass the check."""
    with contextlib.ExitStack() as stack:
        if sys.stdout.isatty():
            stack.enter_context(contextlib.redirect_stdout(cast("TextIO", Harmless(sys.stdout))))
        yield


def unguarded() -> TextIO:
    """Standard output itself: for our own cursor, and for the output of a command that its user has just typed."""
    return sys.stdout.stream if isinstance(sys.stdout, Harmless) else sys.stdout
