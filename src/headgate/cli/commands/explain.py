"""`headgate explain`: why a job does not run."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect, part
from headgate.cli.exits import DONE
from headgate.cli.jobview import expected
from headgate.cli.options import server_options
from headgate.cli.output import emit, state

EXAMPLES = """
headgate explain 01JC...
headgate explain 01JC... --json | jq .reasons
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("id", metavar="JOB", help="the id of the job")
    server_options(parser)
    parser.set_defaults(run=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    answer = connect(arguments).get(f"/v2/jobs/{part(arguments.id)}/explain")
    emit(arguments, answer, show_reasons)
    return DONE


def show_reasons(answer: dict[str, Any]) -> None:
    """The reasons in words."""
    print(f"{answer['job_id']} is {state(answer['state'])}")
    for reason in answer["reasons"]:
        print(f"  {reason['code']}: {reason.get('detail', '')}")
        for each in reason.get("examples", []):
            needs, has = each.get("needed") or "more", each.get("found") or "none"
            print(f"    {each['worker']}: {each['requirement']} needs {needs}, has {has}")
    if answer.get("position") is not None:
        print(f"  {answer['position']} jobs go first")
    if answer.get("expected_start"):
        print(f"  expected start: {expected(answer['expected_start'])}")
