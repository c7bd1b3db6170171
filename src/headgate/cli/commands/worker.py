"""`headgate worker`: a process that takes leases from a server and does the work."""

from __future__ import annotations

import argparse
import signal

from headgate.cli.api import connect_to
from headgate.cli.exits import DONE, USAGE, Failure
from headgate.cli.jobspec import name_values
from headgate.cli.options import server_options
from headgate.cli.output import emit

EXAMPLES = """
headgate worker                                  for the server started in this directory
headgate worker --url https://headgate.example --slots 8 --pool gpu -r memory=64GB -l zone=a
headgate worker --app shop.jobs:app              knows the Python jobs of that app
headgate worker --app shop.jobs:app --check      can it be loaded, and which jobs does it know?
"""
_LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("auto", "text", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--id", help="its name (default: host name and process id)")
    parser.add_argument("--slots", type=int, default=4, metavar="N", help="jobs at a time (default 4)")
    parser.add_argument("--pool", default="default", help="the pool it belongs to (default 'default')")
    parser.add_argument("-r", "--resource", action="append", metavar="NAME=AMOUNT", help="what it has, such as gpu=1")
    parser.add_argument("-l", "--label", action="append", metavar="NAME=VALUE", help="labels that jobs may require")
    parser.add_argument("--type", action="append", metavar="TYPE", help="take only jobs of this type; may be repeated")
    parser.add_argument("--app", metavar="MODULE:APP", help="the app whose Python jobs it knows")
    parser.add_argument("--check", action="store_true", help="see that --app can be loaded, and exit")
    parser.add_argument("--drain", type=float, default=30.0, metavar="S", help="seconds that jobs may take on leaving")
    parser.add_argument("--log-level", default="warning", choices=_LEVELS, help="what it logs (default warning)")
    parser.add_argument("--log-format", default="auto", choices=_FORMATS, help="default auto: text on a terminal")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    server_options(parser)
    parser.set_defaults(run=_worker)


def _worker(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap.orphans import end_with

    if arguments.parent is not None and not end_with(arguments.parent, signal.SIGKILL):
        return DONE
    if arguments.check:
        return _check(arguments)
    url, token = connect_to(arguments)

    from headgate.bootstrap.logs import start_logs
    from headgate.cli.working import Wanted, work
    from headgate.config.schema import LogPart

    start_logs(LogPart(arguments.log_level, arguments.log_format))

    wanted = Wanted(
        id=arguments.id,
        slots=arguments.slots,
        pool=arguments.pool,
        resources=name_values(arguments.resource, "--resource") or {},
        labels=name_values(arguments.label, "--label") or {},
        types=arguments.type,
        app=arguments.app,
        drain=arguments.drain,
        quiet=arguments.parent is not None,
    )
    return work(url, token, wanted)


def _check(arguments: argparse.Namespace) -> int:
    if arguments.app is None:
        raise Failure(USAGE, "--check needs --app")

    from headgate.cli.working import load_app

    found = {"ok": True, "app": arguments.app, "types": sorted(load_app(arguments.app).handlers)}
    emit(arguments, found, lambda data: print(f"{data['app']} knows {', '.join(data['types']) or 'no jobs'}"))
    return DONE
