"""Copy a database, as it is at one moment, into a new file. An engine may go on working with it."""

from __future__ import annotations

import argparse

from headgate.cli.answer import DONE, say

HELP = "copy to a new file while work goes on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line may say."""
    parser.add_argument("database", help="a path, sqlite://PATH or postgresql://...")
    parser.add_argument("target", help="the new file; an existing one is not overwritten")


def run(arguments: argparse.Namespace) -> int:
    """Copy."""
    from headgate.bootstrap.upkeep import backup

    backup(arguments.database, arguments.target)
    say(arguments, f"copied to {arguments.target}", ok=True, target=arguments.target)
    return DONE
