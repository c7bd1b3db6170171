"""`headgate db`: the upkeep of a database, without its server."""

from __future__ import annotations

import argparse
import os

from headgate.cli.exits import DONE, FAILED
from headgate.cli.frame import subcommands
from headgate.cli.options import config_options, json_option
from headgate.cli.output import emit

EXAMPLES = """
headgate db backup /backup/monday.db            also while the server runs
headgate db verify /backup/monday.db            storage, rows, rules, journal
headgate db restore /backup/monday.db           into a place where there is none
headgate db compact --jobs 30d --journal 30d --records load=7d
"""
_ADDRESS = "a path, sqlite://PATH or postgresql://... (default: that of the configuration)"


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    actions = subcommands(parser)
    verify = actions.add("verify", "look for anything wrong; changes nothing")
    backup = actions.add("backup", "copy the database to a new file while work goes on")
    restore = actions.add("restore", "make a new database from a copy; leases from before are void")
    restore.add_argument("source", metavar="SOURCE", help="what `db backup` wrote")
    migrate = actions.add("migrate", "bring the database to this version; the server does it by itself")
    compact = actions.add("compact", "delete what is old and give the room back; the server must not run")
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
    compact.add_argument("--jobs", metavar="AGE", help="delete jobs that ended longer ago than this, such as 30d")
    compact.add_argument("--journal", metavar="AGE", help="delete entries of the journal older than this")
    compact.add_argument(
        "--records",
        metavar="KIND=AGE",
        action="append",
        default=[],
        type=_record,
        help="delete records of a kind (decision, load, audit, log) older than this; may be repeated",
    )


def _record(text: str) -> tuple[str, str]:
    kind, separator, age = text.partition("=")
    if not (kind and separator and age):
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND=AGE, for example load=7d")
    return kind, age


def _database(arguments: argparse.Namespace) -> str:
    if arguments.database is not None:
        return str(arguments.database)
    from headgate.config import load_config

    return load_config({}, os.environ, arguments.config, arguments.settings).config.database_url


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
    from headgate.bootstrap.upkeep import compact, retention

    gone = compact(_database(arguments), retention(arguments.jobs, arguments.journal, dict(arguments.records)))
    text = f"deleted {gone.jobs} jobs, {gone.journal} journal entries, {gone.records} records"
    emit(arguments, {"ok": True, **gone._asdict()}, lambda _: print(text))
    return DONE
