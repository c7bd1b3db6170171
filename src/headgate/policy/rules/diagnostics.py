"""What is wrong with a policy source, where, and what was probably meant.

Every problem becomes a `Diagnostic`; reading a policy never raises because of its content.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Severity = Literal["error", "warning"]

MAX_DIAGNOSTICS = 100
LONGEST_NAME_TO_COMPARE = 64
# str.splitlines also breaks at characters that no editor counts as a new line
LINE_BREAK = re.compile(r"\r\n|\r|\n")


class Diagnostic(msgspec.Struct, frozen=True):
    """One problem at one place; lines and columns count from 1."""

    code: str
    message: str
    line: int
    column: int
    severity: Severity = "error"
    suggestion: str | None = None
    path: str = ""

    def __str__(self) -> str:
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        return f"{self.line}:{self.column}: {self.severity}: {self.message}{hint} [{self.code}]"


class PolicySourceError(Exception):
    """The policy source cannot be used."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics) or str(self.__doc__))


class Lines:
    """Turns an offset in a text into a line and a column, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in LINE_BREAK.finditer(text))]

    def at(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


class Notes:
    """Collects diagnostics while a document is read; stops collecting past a limit."""

    def __init__(self, text: str) -> None:
        self._lines = Lines(text)
        self.found: list[Diagnostic] = []

    def add(
        self,
        code: str,
        offset: int,
        message: str,
        *,
        path: str = "",
        suggestion: str | None = None,
        severity: Severity = "error",
    ) -> None:
        if len(self.found) >= MAX_DIAGNOSTICS:
            return
        line, column = self._lines.at(offset)
        self.found.append(Diagnostic(code, message, line, column, severity, suggestion, path))

    def add_in_block(self, code: str, offset: int, nth_line: int, message: str, *, path: str) -> None:
        """A problem in the nth line of the block scalar that begins at `offset`."""
        if len(self.found) < MAX_DIAGNOSTICS:
            self.found.append(Diagnostic(code, message, self.line(offset) + nth_line, 1, path=path))

    def line(self, offset: int) -> int:
        return self._lines.at(offset)[0]

    @property
    def failed(self) -> bool:
        return any(note.severity == "error" for note in self.found)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` most resembles, if any does."""
    if len(name) > LONGEST_NAME_TO_COMPARE:
        return None  # comparing is quadratic, and nobody mistypes a name of that length
    matches = difflib.get_close_matches(name.lower(), sorted(known), n=1, cutoff=0.55)
    return matches[0] if matches else None


def shown(text: str) -> str:
    """A name as it appears in a message: quoted, and short whatever the source holds."""
    return repr(text if len(text) <= LONGEST_NAME_TO_COMPARE else text[:60] + "...")
