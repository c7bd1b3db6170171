"""What handlers in threads print is the output of their job, as it is for handlers in processes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from headgate.worker.context import NoJob, current_job


@contextmanager
def captured() -> Iterator[None]:
    """In a process of ours: what is printed inside a job goes into its log; everything else where it always went."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", _Printed(out)), cast("TextIO", _Printed(err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


class _Printed:
    """A stream that looks who is printing. What it is asked beyond that is asked of the stream behind it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Print."""
        try:
            job = current_job()
        except NoJob:
            return self._stream.write(text)
        job.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Print several."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
