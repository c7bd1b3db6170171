"""`headgate tenants`: quotas and weights."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect, part
from headgate.cli.each import for_each
from headgate.cli.exits import DONE, USAGE, Failure
from headgate.cli.frame import subcommands
from headgate.cli.options import server_options
from headgate.cli.output import emit, table

EXAMPLES = """
headgate tenants list
headgate tenants set lab weight=2 max_units=50 max_queued=1000
headgate tenants remove lab             back to no quotas and weight 1
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    actions = subcommands(parser)
    actions.add("list", "list tenants with what they use").set_defaults(run=_list)
    change = actions.add("set", "set quotas and weight of a tenant")
    change.add_argument("id", metavar="TENANT")
    change.add_argument(
        "values",
        nargs="+",
        metavar="NAME=VALUE",
        help="weight, max_units, max_leases, max_queued; without a value: no limit",
    )
    change.set_defaults(run=_set)
    remove = actions.add("remove", "take quotas and weight away")
    remove.add_argument("ids", nargs="+", metavar="TENANT")
    remove.set_defaults(run=_remove)
    for action in actions.all:
        server_options(action)


def _list(arguments: argparse.Namespace) -> int:
    emit(arguments, connect(arguments).get("/v2/tenants"), _show)
    return DONE


def _set(arguments: argparse.Namespace) -> int:
    body = dict(_value(text) for text in arguments.values)
    answer = connect(arguments).call("PUT", f"/v2/tenants/{part(arguments.id)}", body=body)
    emit(arguments, answer, lambda _: print(arguments.id))
    return DONE


def _remove(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    return for_each(arguments, arguments.ids, lambda path: api.call("DELETE", f"/v2/tenants/{path}"))


def _value(text: str) -> tuple[str, float | int | None]:
    name, equals, value = text.partition("=")
    try:
        number = None if value in ("", "none") else float(value)
    except ValueError:
        equals = ""
        number = None
    if not equals:
        raise Failure(USAGE, f"{text}: must be NAME=NUMBER")
    return name, int(number) if number is not None and number.is_integer() else number


def _show(answer: dict[str, Any]) -> None:
    names = list(dict.fromkeys(name for tenant in answer["tenants"] for name in tenant))
    rows = [[tenant.get(name) for name in names] for tenant in answer["tenants"]]
    table(names or ["id"], rows)
