"""`headgate pools`: machines that report themselves."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.exits import DONE
from headgate.cli.options import server_options
from headgate.cli.output import emit, table

EXAMPLES = """
headgate pools --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    server_options(parser)
    parser.set_defaults(run=_pools)


def _pools(arguments: argparse.Namespace) -> int:
    emit(arguments, connect(arguments).get("/v2/pools"), _show)
    return DONE


def _show(answer: dict[str, Any]) -> None:
    rows = [
        (pool["id"], pool.get("node"), pool["status"], len(pool.get("gpus", [])), len(pool.get("workers", [])))
        for pool in answer["pools"]
    ]
    table(("pool", "node", "status", "gpus", "workers"), rows)
