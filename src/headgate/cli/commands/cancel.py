"""`headgate cancel`: end jobs that have not ended."""

from __future__ import annotations

import argparse

from headgate.cli.api import connect
from headgate.cli.each import for_each
from headgate.cli.options import server_options

EXAMPLES = """
headgate cancel 01JC... 01JD...
headgate cancel --reason "wrong input" 01JC...
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("ids", nargs="+", metavar="JOB", help="the ids of the jobs")
    parser.add_argument("--reason", default="", help="why, for the history of the job")
    server_options(parser)
    parser.set_defaults(run=_cancel)


def _cancel(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    return for_each(
        arguments, arguments.ids, lambda path: api.post(f"/v2/jobs/{path}/cancel", {"reason": arguments.reason})
    )
