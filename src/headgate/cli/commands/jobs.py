"""`headgate jobs`: a list, newest first."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.exits import DONE
from headgate.cli.jobview import row
from headgate.cli.options import server_options
from headgate.cli.output import emit, paint, table

EXAMPLES = """
headgate jobs                         the newest fifty
headgate jobs --state queued,running  only those that have not ended
headgate jobs --tenant lab --limit 500 --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--state", help="blocked, queued, leased, running, completed, failed, ...; several with commas")
    parser.add_argument("--class", dest="job_class", help="high, normal, low or background")
    parser.add_argument("--tenant", help="on whose account")
    parser.add_argument("--type", help="of this type")
    parser.add_argument("--name", help="whose name contains this")
    parser.add_argument("--oldest", action="store_true", help="oldest first")
    parser.add_argument("-n", "--limit", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--after", metavar="CURSOR", help="the page after this cursor")
    server_options(parser)
    parser.set_defaults(run=_jobs)


def _jobs(arguments: argparse.Namespace) -> int:
    answer = connect(arguments).get(
        "/v2/jobs",
        state=arguments.state,
        **{"class": arguments.job_class},
        tenant=arguments.tenant,
        type=arguments.type,
        name=arguments.name,
        order="oldest" if arguments.oldest else None,
        limit=arguments.limit,
        after=arguments.after,
    )
    emit(arguments, answer, _show)
    return DONE


def _show(answer: dict[str, Any]) -> None:
    from headgate.bootstrap.machine import now_ms

    now = now_ms() / 1000
    rows = [(*row(job, now), _worker(job)) for job in answer["jobs"]]
    table(("id", "name", "state", "class", "units", "age", "took", "worker"), rows)
    if answer.get("next"):
        print(paint(f"there are more: --after {answer['next']}", "grey"))


def _worker(job: dict[str, Any]) -> str:
    return str(job.get("worker_id") or "-")
