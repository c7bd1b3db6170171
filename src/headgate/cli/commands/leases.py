"""`headgate leases`: who may work on what, and until when."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.exits import DONE
from headgate.cli.options import server_options
from headgate.cli.output import age, emit, table

EXAMPLES = """
headgate leases
headgate leases --worker gpu-1 --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--worker", help="only those of this worker")
    server_options(parser)
    parser.set_defaults(run=_leases)


def _leases(arguments: argparse.Namespace) -> int:
    answer = connect(arguments).get("/v2/leases", worker_id=arguments.worker)
    emit(arguments, answer, _show)
    return DONE


def _show(answer: dict[str, Any]) -> None:
    from headgate.bootstrap.machine import now_ms

    now = now_ms() / 1000
    rows = [
        (
            lease["lease_id"],
            lease["job_id"],
            lease.get("worker_id"),
            lease["capacity_units"],
            lease["attempt"],
            age(now - lease["granted_at"]),
            age(lease["expires_at"] - now),
        )
        for lease in answer["leases"]
    ]
    table(("lease", "job", "worker", "units", "attempt", "held", "expires in"), rows)
