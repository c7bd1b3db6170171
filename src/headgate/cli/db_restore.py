"""Make a new database from a copy. Its epoch jumps, so that leases from before are void and late words refused."""

from __future__ import annotations

import argparse

from headgate.cli.answer import DONE, say

HELP = "make a new database from a copy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line may say."""
    parser.add_argument("source", help="what `db backup` wrote")
    parser.add_argument("database", help="the new database: a path, sqlite://PATH or postgresql://...")


def run(arguments: argparse.Namespace) -> int:
    """Restore."""
    from headgate.bootstrap.upkeep import restore

    restore(arguments.source, arguments.database)
    say(arguments, f"restored {arguments.source}", ok=True, source=arguments.source)
    return DONE
