"""`headgate submit`: hand in a command, or many jobs from a file."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from headgate.cli.api import connect
from headgate.cli.exits import BAD_INPUT, DONE, Failure
from headgate.cli.jobspec import command_of, job_body, job_options, read_input
from headgate.cli.options import server_options
from headgate.cli.output import emit

EXAMPLES = """
headgate submit -- python train.py --epochs 3
headgate submit -p high -u 20 -r memory=8GB --timeout 2h --attempts 3 -- ./render.sh
headgate submit --type resize --payload '{"image": 7}'     the job of that name of a Python app
headgate submit --after 01JC... -- ./report.sh      after another job has completed
headgate submit --file jobs.json                    an array of jobs, or one object a line; all or none
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    job_options(parser)
    parser.add_argument("-f", "--file", metavar="FILE", help="jobs as JSON: an array, or one a line; - reads stdin")
    server_options(parser)
    parser.set_defaults(run=_submit)


def _submit(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    headers: dict[str, str] = {}
    if arguments.file:
        if command_of(arguments):
            raise Failure(BAD_INPUT, "give a command or --file, not both")
        body: Any = _jobs(read_input(arguments.file))
        headers = {"Idempotency_Key": arguments.key} if arguments.key else {}
    else:
        body = job_body(arguments, local=api.local)
    answer = api.post("/v2/jobs", body, **headers)
    emit(arguments, answer, lambda data: print("\n".join(data["ids"])))
    for warning in answer.get("warnings", []):
        print(f"headgate submit: warning: {warning}", file=sys.stderr)
    return DONE


def _jobs(text: str) -> list[Any]:
    try:
        if text.lstrip().startswith("["):
            found: list[Any] = json.loads(text)
            return found
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise Failure(BAD_INPUT, f"--file: not JSON: {error}") from None
