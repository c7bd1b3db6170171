"""`headgate db`: what can be done to a database from outside an engine."""

from __future__ import annotations

import argparse
from functools import partial

from headgate.cli import db_backup, db_compact, db_migrate, db_restore, db_verify
from headgate.cli.answer import careful
from headgate.cli.frame import subcommands
from headgate.cli.options import json_option

EXAMPLES = """
headgate db backup .headgate/headgate.db monday.db     also while the server runs
headgate db verify monday.db
headgate db restore monday.db .headgate/new.db         never overwrites a database
headgate db compact .headgate/headgate.db --jobs 30d   delete what ended more than 30 days ago
"""
VERBS = {
    "verify": db_verify,
    "backup": db_backup,
    "restore": db_restore,
    "migrate": db_migrate,
    "compact": db_compact,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    verbs = subcommands(parser)
    for name, module in VERBS.items():
        verb = verbs.add(name, module.HELP)
        module.add_arguments(verb)
        json_option(verb)
        verb.set_defaults(run=partial(careful, module.run))
