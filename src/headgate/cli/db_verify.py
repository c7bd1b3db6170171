"""Check a database: its storage, its rows against each other, the rules of the core, and the journal against all."""

from __future__ import annotations

import argparse

from headgate.cli.answer import DONE, FAILED, say

HELP = "look for anything wrong; changes nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line may say."""
    parser.add_argument("database", help="a path, sqlite://PATH or postgresql://...")


def run(arguments: argparse.Namespace) -> int:
    """Print every problem; 1 if there is one."""
    from headgate.bootstrap.upkeep import verify_database

    problems, notes = verify_database(arguments.database)
    lines = [f"note: {note}" for note in notes] + [f"problem: {problem}" for problem in problems]
    lines.append(f"{len(problems)} problems" if problems else "ok")
    say(arguments, "\n".join(lines), ok=not problems, problems=problems, notes=notes)
    return FAILED if problems else DONE
