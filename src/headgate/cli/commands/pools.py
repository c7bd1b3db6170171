"""`headgate pools`: machines that report themselves."""

from __future__ import annotations

import argparse

from headgate.cli.api import connect
from headgate.cli.each import for_each
from headgate.cli.exits import DONE
from headgate.cli.options import server_options
from headgate.cli.output import emit
from headgate.cli.poolview import show_pools

EXAMPLES = """
headgate pools                    each machine with its own load
headgate pools --remove lab-1     forget a pool that has no workers
"""


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
