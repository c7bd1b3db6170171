"""Opening files of workloads: plain or gzipped, line by line, with the number of the line."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

from headgate.sim.workloads.model import WorkloadError

_GZIP = b"\x1f\x8b"


def read_bytes(path: str | Path) -> bytes:
    """The content, unzipped where the file is gzipped, whatever its name says."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
    if raw[:2] != _GZIP:
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError) as error:
        raise WorkloadError(f"{path} is not a whole gzip file: {error}", path=str(path)) from error


def read_text(path: str | Path) -> str:
    """The content as text. Old logs carry names in Latin-1; no byte is ever refused."""
    raw = read_bytes(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def lines_of(path: str | Path) -> Iterator[tuple[int, str]]:
    """Lines that hold something, with their numbers."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        stripped = line.strip()
        if stripped:
            yield number, stripped


def rows_of(path: str | Path, *needed: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a CSV file by the names of its header; `WorkloadError` where a needed column is missing."""
    reader = csv.DictReader(io.StringIO(read_text(path)), restval="")
    missing = [name for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        raise WorkloadError(f"{path} has no column {', '.join(missing)}", path=str(path), field=missing[0])
    for row in reader:
        yield reader.line_num, row


def stem_of(path: str | Path) -> str:
    """The name of a workload: that of its file without endings."""
    name = Path(path).name
    for ending in (".gz", ".swf", ".csv", ".jsonl", ".json", ".stg", ".sm"):
        name = name.removesuffix(ending)
    return name
