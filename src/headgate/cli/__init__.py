"""The command line: thin commands over what bootstrap wires. No scheduling rule may enter here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from headgate.cli import db
from headgate.cli.answer import careful

NOT_AVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h: the service asked for is not there


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    if arguments.command == "up":
        return up()
    if arguments.command == "db":
        return careful(arguments.command_run, arguments)
    _parser().print_help()
    return 0


def up() -> int:
    """Say that there is nothing to start yet."""
    print(
        f"headgate up: version {version('headgate')} has no server yet, so there is nothing to start.\n"
        "What there is so far: see CHANGELOG.md and docs/.",
        file=sys.stderr,
    )
    return NOT_AVAILABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headgate", description="A programmable, resource-aware job scheduler.")
    parser.add_argument("--version", action="version", version=f"headgate {version('headgate')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("up", help="start the server (not available in this version yet)")
    db.add_parser(commands)
    return parser
