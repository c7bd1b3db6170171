"""`headgate db`: what can be done to a database from outside an engine."""

from __future__ import annotations

import argparse

from headgate.cli import db_backup, db_compact, db_restore, db_verify
from headgate.cli.answer import MISUSED

COMMANDS = {"verify": db_verify, "backup": db_backup, "restore": db_restore, "compact": db_compact}
ADDRESS = "a path, sqlite://PATH or postgresql://..."


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the group to the command line."""
    group = commands.add_parser("db", help="verify, copy, restore and compact databases")
    verbs = group.add_subparsers(dest="verb", metavar="VERB")
    for name, module in COMMANDS.items():
        verb = verbs.add_parser(name, help=module.HELP, description=module.__doc__)
        module.add_arguments(verb)
        verb.add_argument("--json", action="store_true", help="answer with one JSON object")
        verb.set_defaults(command_run=module.run)

    def none_named(_: argparse.Namespace) -> int:
        group.print_help()
        return MISUSED

    group.set_defaults(command_run=none_named, json=False)
