"""Bring a database to this version. A server does so by itself when it opens one."""

from __future__ import annotations

import argparse

from headgate.cli.answer import DONE, say

HELP = "bring a database to this version; the server does it by itself"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line may say."""
    parser.add_argument("database", help="a path, sqlite://PATH or postgresql://...")


def run(arguments: argparse.Namespace) -> int:
    """Open it once, alone."""
    from headgate.bootstrap.upkeep import migrate

    epoch = migrate(arguments.database)
    say(arguments, f"{arguments.database.rpartition('@')[2]} fits this version", ok=True, epoch=epoch)
    return DONE
