"""`headgate db`: the upkeep of a database, without its server."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from headgate.cli.exits import DONE, FAILED, UNAVAILABLE, USAGE, Failure
from headgate.cli.frame import subcommands
from headgate.cli.options import config_options, json_option
from headgate.cli.output import emit

if TYPE_CHECKING:
    from headgate.bootstrap.upkeep import Retention
    from headgate.config import Config

EXAMPLES = """
headgate db backup /backup/monday.db            also while the server runs
headgate db verify /backup/monday.db            storage, rows, rules, journal
headgate db restore /backup/monday.db           into a place where there is none
headgate db compact --jobs 30d --events 7d --load 1d    without ages: those of the configuration
"""
AGES = {
    "jobs": "delete jobs that ended longer ago than this, such as 30d",
    "keys": "jobs with an idempotency key stay at least this long after their end (default 1d)",
    "events": "delete the histories of jobs that ended longer ago than this, and journal entries older than this",
    "decisions": "delete decisions older than this",
    "load": "delete samples of load older than this",
    "audit": "delete entries of the audit log older than this",
    "logs": "delete output of jobs older than this",
}
_ADDRESS = "a path, sqlite://PATH or postgresql://... (default: that of the configuration)"


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    actions = subcommands(parser)
    verify = actions.add("verify", "look for anything wrong; changes nothing")
    backup = actions.add("backup", "copy the database to a new file while work goes on")
    restore = actions.add("restore", "make a new database from a copy; leases from before are void")
    restore.add_argument("source", metavar="SOURCE", help="what `db backup` wrote")
    migrate = actions.add("migrate", "bring the database to this version; the server does it by itself")
    compact = actions.add(
        "compact", "delete what is old and give the room back; a database in use is compacted by its owner"
    )
    for action, run in (
        (verify, _verify),
        (backup, _backup),
        (restore, _restore),
        (migrate, _migrate),
        (compact, _compact),
    ):
        action.add_argument("database", nargs="?", metavar="DATABASE", help=_ADDRESS)
        action.set_defaults(run=run)
        config_options(action)
        json_option(action)
    backup.add_argument("target", metavar="TARGET", help="the new file; an existing one is not overwritten")
    for name, what in AGES.items():
        compact.add_argument(f"--{name}", metavar="AGE", help=what)
    for option in ("--url", "--token"):
        compact.add_argument(
            option, metavar=option[2:].upper(), help="the server that owns it, where it has to be told"
        )


def _database(arguments: argparse.Namespace) -> str:
    return str(arguments.database) if arguments.database is not None else _configured(arguments).database_url


def _configured(arguments: argparse.Namespace) -> Config:
    from headgate.config import load_config

    return load_config({}, os.environ, arguments.config, arguments.settings).config


def _verify(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap.upkeep import verify_database

    problems, notes = verify_database(_database(arguments))
    lines = [f"note: {note}" for note in notes] + [f"problem: {problem}" for problem in problems]
    lines.append(f"{len(problems)} problems" if problems else "ok")
    emit(arguments, {"ok": not problems, "problems": problems, "notes": notes}, lambda _: print("\n".join(lines)))
    return FAILED if problems else DONE


def _backup(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap.upkeep import backup

    backup(_database(arguments), arguments.target)
    emit(arguments, {"ok": True, "target": arguments.target}, lambda _: print(f"copied to {arguments.target}"))
    return DONE


def _restore(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap.upkeep import restore

    restore(arguments.source, _database(arguments))
    emit(arguments, {"ok": True, "source": arguments.source}, lambda _: print(f"restored {arguments.source}"))
    return DONE


def _migrate(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap.upkeep import migrate

    epoch = migrate(_database(arguments))
    emit(arguments, {"ok": True, "epoch": epoch}, lambda _: print("the database fits this version"))
    return DONE


def _compact(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap.upkeep import StoreOwned, compact, retention

    ages = {name: age for name in AGES if (age := getattr(arguments, name)) is not None}
    keep = retention(ages) if ages else _configured(arguments).core.retention
    if not keep.deletes:
        raise Failure(USAGE, "no age was given, and the configuration keeps everything for ever")
    try:
        gone = compact(_database(arguments), keep)._asdict()
    except StoreOwned as owned:
        gone = _ask_server(arguments, keep, str(owned))
    text = "deleted {jobs} jobs, {histories} histories, {journal} journal entries, {records} records".format(**gone)
    emit(arguments, {"ok": True, **gone}, lambda _: print(text))
    return DONE


def _ask_server(arguments: argparse.Namespace, keep: Retention, owned: str) -> dict[str, int]:
    """A server owns the database: let it do the work, if it is the one of this configuration."""
    from headgate.cli.api import connect

    if arguments.url is None and not _is_configured(arguments):
        raise Failure(UNAVAILABLE, f"{owned}; if that is a server, name it with --url")
    ages = {name: age / 1000 for name in AGES if (age := getattr(keep, name)) is not None}
    try:
        gone: dict[str, int] = connect(arguments).post("/v2/admin/compact", ages)
    except Failure as error:
        raise Failure(error.code, f"{owned}; it could not be asked to compact: {error}") from error
    return gone


def _is_configured(arguments: argparse.Namespace) -> bool:
    from headgate.bootstrap.upkeep import same_database

    return same_database(_database(arguments), _configured(arguments).database_url)
