"""`headgate workers`: who does the work."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.each import for_each
from headgate.cli.exits import DONE
from headgate.cli.options import server_options
from headgate.cli.output import age, emit, table

EXAMPLES = """
headgate workers
headgate workers --drain gpu-1      finish what runs, take nothing new
headgate workers --undrain gpu-1    give it work again
headgate workers --evict gpu-1      have it stop its jobs at once, which queue again, and leave
headgate workers --remove gpu-1
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--drain", metavar="WORKER", action="append", help="give it no further work until --undrain")
    change.add_argument("--undrain", metavar="WORKER", action="append", help="give one that drains work again")
    change.add_argument("--evict", metavar="WORKER", action="append", help="have it stop its jobs and leave")
    change.add_argument(
        "--remove", metavar="WORKER", action="append", help="forget it; one that still lives comes back"
    )
    parser.add_argument("--force", action="store_true", help="with --remove: end its leases too")
    server_options(parser)
    parser.set_defaults(run=_workers)


def _workers(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    for verb in ("drain", "undrain", "evict"):
        if names := getattr(arguments, verb):
            body = {"hold": True} if verb == "drain" else None
            return for_each(arguments, names, lambda path: api.post(f"/v2/workers/{path}/{verb}", body))  # noqa: B023 - at once
    if arguments.remove:
        query = {"force": "true"} if arguments.force else None
        return for_each(
            arguments, arguments.remove, lambda path: api.call("DELETE", f"/v2/workers/{path}", query=query)
        )
    emit(arguments, api.get("/v2/workers"), _show)
    return DONE


def _show(answer: dict[str, Any]) -> None:
    from headgate.bootstrap.machine import now_ms

    now = now_ms() / 1000
    rows = [
        (
            worker["id"],
            worker["pool"],
            worker["status"],
            f"{worker['running']}/{worker['slots']}",
            worker.get("completed", 0),
            age(now - worker.get("last_seen", now)),
            worker.get("labels", {}),
        )
        for worker in answer["workers"]
    ]
    table(("worker", "pool", "status", "busy", "completed", "seen", "labels"), rows)
