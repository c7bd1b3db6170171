"""The directory that a service keeps on a machine: token, address, database."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headgate.ports import StoreUnavailable

URL, TOKEN = "url", "token"


class CannotWrite(StoreUnavailable):
    """The directory of the service cannot be written."""


def prepare(directory: str) -> Path:
    """Make the directory, for its owner only, and see that it can be written."""
    path = Path(directory)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise CannotWrite(f"{path}: cannot be written: {error.strerror}") from error
    return path


def note_url(directory: Path, url: str) -> None:
    """Leave the address where commands in this directory find it."""
    partial = directory / f".{URL}.partial"
    partial.write_text(url + "\n", encoding="utf-8")
    partial.chmod(0o600)
    partial.replace(directory / URL)


def forget_url(directory: Path) -> None:
    """Nobody serves there any more."""
    (directory / URL).unlink(missing_ok=True)
