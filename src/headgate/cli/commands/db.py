"""`headgate db`: the upkeep of the database, without the server."""

from __future__ import annotations

import argparse
import os

from headgate.cli.exits import DONE, FAILED
from headgate.cli.frame import subcommands
from headgate.cli.options import config_options, json_option
from headgate.cli.output import emit, paint

EXAMPLES = """
headgate db backup /backup/headgate-monday.db      also while the server runs
headgate db verify --db /backup/headgate-monday.db
headgate db restore /backup/headgate-monday.db     into a place where there is none
headgate db compact --keep 30d                     delete what ended more than 30 days ago
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    actions = subcommands(parser)
    backup = actions.add("backup", "copy the database to a new file, also while the server runs")
    backup.add_argument("target", metavar="FILE", help="a file that does not exist yet")
    backup.set_defaults(run=_backup)
    restore = actions.add("restore", "make the database from a copy; never overwrites one")
    restore.add_argument("source", metavar="FILE")
    restore.set_defaults(run=_restore)
    actions.add("verify", "check the file and whether its rows agree with each other").set_defaults(run=_verify)
    actions.add("migrate", "bring the database to this version; the server does it by itself").set_defaults(
        run=_migrate
    )
    compact = actions.add("compact", "delete what is old and give the room back; the server must not run")
    compact.add_argument("--keep", metavar="SPAN", default="30d", help="how old something may be (default 30d)")
    compact.set_defaults(run=_compact)
    for action in actions.all:
        action.add_argument("--db", metavar="URL", help="the database (default: that of the configuration)")
        config_options(action)
        json_option(action)


def _database(arguments: argparse.Namespace) -> str:
    from headgate.config import load_config

    flags = {"database": ("--db", arguments.db)} if arguments.db else {}
    return load_config(flags, os.environ, arguments.config, arguments.settings).config.database_url


def _backup(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import database

    url = _database(arguments)
    database.backup(url, arguments.target)
    emit(arguments, {"copy": arguments.target}, lambda _: print(f"{arguments.target} is a copy of {_named(url)}"))
    return DONE


def _restore(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import database

    url = _database(arguments)
    database.restore(url, arguments.source)
    emit(arguments, {"restored": arguments.source}, lambda _: print(f"{_named(url)} is as {arguments.source} was"))
    return DONE


def _verify(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import database

    url = _database(arguments)
    problems = database.verify(url)
    text = "\n".join(problems) or paint(f"{_named(url)} is fine", "green")
    emit(arguments, {"ok": not problems, "problems": problems}, lambda _: print(text))
    return FAILED if problems else DONE


def _migrate(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import database

    url = _database(arguments)
    epoch = database.migrate(url)
    emit(arguments, {"ok": True, "epoch": epoch}, lambda _: print(f"{_named(url)} fits this version"))
    return DONE


def _compact(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import database
    from headgate.bootstrap.failures import milliseconds

    url = _database(arguments)
    gone = database.compact(url, milliseconds(arguments.keep, "--keep"))
    text = f"deleted {gone.jobs} jobs, {gone.journal} entries of the journal, {gone.records} records"
    emit(arguments, gone._asdict(), lambda _: print(text))
    return DONE


def _named(url: str) -> str:
    """An address without its password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator else url
