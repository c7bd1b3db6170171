"""`headgate retry`: submit ended jobs again."""

from __future__ import annotations

import argparse

from headgate.cli.api import connect
from headgate.cli.each import for_each
from headgate.cli.options import server_options

EXAMPLES = """
headgate retry 01JC...           prints the id of the new job
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("ids", nargs="+", metavar="JOB", help="the ids of the jobs")
    server_options(parser)
    parser.set_defaults(run=_retry)


def _retry(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    return for_each(arguments, arguments.ids, lambda path: api.post(f"/v2/jobs/{path}/retry"))
