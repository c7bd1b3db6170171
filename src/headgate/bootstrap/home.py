"""The directory that a service keeps on a machine: token, address, database."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

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


def note_url(directory: Path, url: str) -> str | None:
    """Leave the address where commands in this directory find it; the one that was there."""
    before = _noted(directory)
    partial = directory / f".{URL}.partial"
    partial.write_text(url + "\n", encoding="utf-8")
    partial.chmod(0o600)
    partial.replace(directory / URL)
    return before


def forget_url(directory: Path, url: str, before: str | None) -> None:
    """Nobody serves there any more. One that served before, with another database, is found again if it still does."""
    if _noted(directory) != url:
        return  # it is another one's by now
    if before not in (None, url) and _serves(before):
        note_url(directory, before)
    else:
        (directory / URL).unlink(missing_ok=True)


def _noted(directory: Path) -> str | None:
    try:
        return (directory / URL).read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _serves(url: str) -> bool:
    """Whether somebody listens at an address of this machine."""
    try:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=1.0):
            return True
    except (OSError, ValueError):
        return False
