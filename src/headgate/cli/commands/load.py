"""`headgate load`: how busy the machine is, and what that leaves."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.exits import DONE
from headgate.cli.options import server_options
from headgate.cli.output import emit, paint, pairs, rating, table

EXAMPLES = """
headgate load              as the server rates it
headgate load --here       the signals of this machine, without a server
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--here", action="store_true", help="measure this machine instead of asking a server")
    server_options(parser)
    parser.set_defaults(run=_load)


def _load(arguments: argparse.Namespace) -> int:
    if arguments.here:
        from headgate.bootstrap.local_load import measure_here

        emit(arguments, measure_here(), _show)
    else:
        emit(arguments, connect(arguments).get("/v2/capacity"), _show)
    return DONE


def _show(answer: dict[str, Any]) -> None:
    pairs([("busy", rating(answer["busy"]))])
    if "usable_units" in answer:
        names = ("total", "usable", "leased", "free")
        pairs([("units", ", ".join(f"{answer[f'{name}_units']} {name}" for name in names))])
    if answer.get("gate", 0.0) - answer["busy"] >= 0.1:
        print(f"  capacity was reckoned at {answer['gate']:.1f}; it follows a falling rating once in a while")
    for reason in answer.get("reasons", []):
        print(paint(f"  {reason}", "yellow"))
    rows = sorted(answer.get("signals", {}).items(), key=lambda pair: -(pair[1] or 0))
    table(("signal", "counts as"), [(name, f"{value:.1f}") for name, value in rows])
