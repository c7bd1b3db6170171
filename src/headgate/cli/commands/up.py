"""`headgate up`: everything that belongs to a service, as one process tree."""

from __future__ import annotations

import argparse
import os
from typing import Any

from headgate.cli.exits import USAGE, Failure
from headgate.cli.options import config_options, json_option

EXAMPLES = """
headgate up                          serve on http://127.0.0.1:8420, everything kept in .headgate/
headgate up --demo                   with a small workload to look at
headgate up --port 0 --workers 4     on a free port, with four worker processes
headgate up --policy mine.yaml       deploy this policy, and again whenever the file changes
headgate up --db postgresql://db/headgate --standby    take over when the server that leads it goes
"""
_FLAGS = {
    "host": "server.host",
    "port": "server.port",
    "workers": "workers.count",
    "slots": "workers.slots",
    "db": "database",
    "mode": "mode",
    "policy": "policy.file",
    "load": "load.rating",
    "app": "workers.app",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", metavar="N", help="port to listen on (default 8420; 0 picks a free one)")
    parser.add_argument("--workers", metavar="N", help="worker processes (default 2)")
    parser.add_argument("--slots", metavar="N", help="jobs that each of them runs at a time (default 4)")
    parser.add_argument("--db", metavar="URL", help="the database (default .headgate/headgate.db)")
    parser.add_argument("--standby", action="store_true", help="wait while another server owns it, then take over")
    parser.add_argument("--mode", choices=("home", "lab", "platform"), help="who may deploy policies (default home)")
    parser.add_argument("--policy", metavar="FILE", help="a policy file to deploy and to watch")
    parser.add_argument("--app", metavar="MODULE:APP", help="the app whose Python jobs the workers know")
    parser.add_argument("--load", metavar="RATING", help="'measured' (default), or a fixed busy rating from 0 to 10")
    parser.add_argument("--demo", action="store_true", help="submit a small mixed workload")
    parser.add_argument("--no-auth", action="store_true", help="ask nobody for a token; only on a loopback address")
    config_options(parser)
    json_option(parser)
    parser.set_defaults(run=_up)


def _up(arguments: argparse.Namespace) -> int:
    from headgate.config import load_config

    flags: dict[str, tuple[str, Any]] = {
        key: (f"--{name}", value) for name, key in _FLAGS.items() if (value := getattr(arguments, name)) is not None
    }
    if arguments.no_auth:
        flags["server.auth"] = ("--no-auth", False)
    if arguments.standby:
        flags["standby"] = ("--standby", True)
    if arguments.rest:
        raise Failure(USAGE, f"unexpected: {' '.join(arguments.rest)}")
    config = load_config(flags, os.environ, arguments.config, arguments.settings).config

    from headgate.bootstrap.up import run_up

    return run_up(config, demo=arguments.demo, as_json=arguments.json)
