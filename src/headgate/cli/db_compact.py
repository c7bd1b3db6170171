"""Delete what is older than its age: ended jobs, the indexed part of the journal, records. Live jobs always stay.

Ages are written as 30d, 12h, 5m or seconds. The database must not be in use.
"""

from __future__ import annotations

import argparse

from headgate.cli.answer import DONE, say

HELP = "delete old jobs, journal entries and records"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line may say."""
    parser.add_argument("database", help="a path, sqlite://PATH or postgresql://...")
    parser.add_argument("--jobs", metavar="AGE", help="delete jobs that ended longer ago than this")
    parser.add_argument("--journal", metavar="AGE", help="delete journal entries older than this")
    parser.add_argument(
        "--records",
        metavar="KIND=AGE",
        action="append",
        default=[],
        type=_record,
        help="delete records of a kind (decision, load, audit) older than this; may be given several times",
    )


def _record(text: str) -> tuple[str, str]:
    kind, separator, age = text.partition("=")
    if not (kind and separator and age):
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND=AGE, for example load=7d")
    return kind, age


def run(arguments: argparse.Namespace) -> int:
    """Compact, and say how much went."""
    from headgate.bootstrap.upkeep import compact, retention

    gone = compact(arguments.database, retention(arguments.jobs, arguments.journal, dict(arguments.records)))
    text = f"deleted {gone.jobs} jobs, {gone.journal} journal entries, {gone.records} records"
    say(arguments, text, ok=True, jobs=gone.jobs, journal=gone.journal, records=gone.records)
    return DONE
