"""`headgate pool`: this machine tells a server how busy it is, so that leases on it respect its own load."""

from __future__ import annotations

import argparse
import os
from typing import Any

from headgate.cli.api import connect_to
from headgate.cli.jobspec import name_values
from headgate.cli.options import config_options, server_options

EXAMPLES = """
headgate pool lab-1 --url https://headgate.example     beside `headgate worker --pool lab-1` on the same machine
headgate pool lab-1 --once                             one report, shown
headgate pool gpu --units 40 -r memory=64GB            what this machine can hold in all
headgate pool lab-1 --set core.signals.cpu.high=0.9    with thresholds of its own
"""
_FLAGS = {"load": "load.rating", "disk": "load.disk"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("id", metavar="POOL", help="the name of the pool; workers name it with --pool")
    parser.add_argument("--once", action="store_true", help="report once and exit")
    parser.add_argument("--node", help="the name of this machine (default: its host name)")
    parser.add_argument(
        "-u", "--units", type=int, metavar="N", help="units it holds when idle (default: core.total_units, 100)"
    )
    parser.add_argument("-r", "--resource", action="append", metavar="NAME=AMOUNT", help="what it has, for all workers")
    parser.add_argument("--disk", metavar="PATH", help="the file system to watch (default /)")
    parser.add_argument("--load", metavar="RATING", help="'measured' (default), or a fixed busy rating from 0 to 10")
    config_options(parser)
    server_options(parser)
    parser.set_defaults(run=_pool)


def _pool(arguments: argparse.Namespace) -> int:
    from headgate.config import load_config

    flags: dict[str, tuple[str, Any]] = {
        key: (f"--{name}", value) for name, key in _FLAGS.items() if (value := getattr(arguments, name)) is not None
    }
    config = load_config(flags, os.environ, arguments.config, arguments.settings).config
    url, token = connect_to(arguments)

    from headgate.cli.pooling import Wanted, report_on, report_once

    wanted = Wanted(
        arguments.id,
        arguments.node or os.uname().nodename,
        config.core.total_units if arguments.units is None else arguments.units,
        name_values(arguments.resource, "--resource") or {},
        config,
        as_json=arguments.json,
    )
    return report_once(url, token, wanted) if arguments.once else report_on(url, token, wanted)
