"""`headgate pools`: machines that report themselves."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.each import for_each
from headgate.cli.exits import DONE
from headgate.cli.options import server_options
from headgate.cli.output import age, emit, paint, rating, table

EXAMPLES = """
headgate pools                    each machine with its own load
headgate pools --remove lab-1     forget a pool that has no workers
"""
_COLOURS = {"online": "green", "degraded": "yellow", "offline": "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--remove", metavar="POOL", action="append", help="forget it")
    server_options(parser)
    parser.set_defaults(run=_pools)


def _pools(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    if arguments.remove:
        return for_each(arguments, arguments.remove, lambda path: api.call("DELETE", f"/v2/pools/{path}"))
    emit(arguments, api.get("/v2/pools"), lambda answer: show_pools(answer["pools"]))
    return DONE


def show_pools(pools: list[dict[str, Any]]) -> None:
    """A line for each pool, and what its machine complains of."""
    from headgate.bootstrap.machine import now_ms

    now = now_ms() / 1000
    table(
        ("pool", "node", "status", "busy", "units", "gpus", "workers", "reported"), [_row(pool, now) for pool in pools]
    )
    for pool in pools:
        for reason in pool.get("reasons", []):
            print(paint(f"  {pool['id']}: {reason}", "yellow"))


def _row(pool: dict[str, Any], now: float) -> tuple[Any, ...]:
    busy, units, heard = pool.get("busy"), pool.get("units"), pool.get("last_report")
    return (
        pool["id"],
        pool.get("node"),
        paint(pool["status"], _COLOURS.get(pool["status"])),
        None if busy is None else rating(busy),
        None if units is None else f"{pool.get('leased_units', 0)} of {pool.get('usable_units', 0)} ({units})",
        len(pool.get("gpus", [])),
        len(pool.get("workers", [])),
        "never" if heard is None else f"{age(now - heard)} ago",
    )
