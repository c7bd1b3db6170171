"""`headgate bench`: how fast a running server is, from here."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from headgate.cli.api import Api, connect, part
from headgate.cli.exits import DONE, TIMED_OUT, Failure
from headgate.cli.jobview import ENDED
from headgate.cli.options import server_options
from headgate.cli.output import emit, table
from headgate.cli.progress import progress

EXAMPLES = """
headgate bench                 a hundred jobs that do nothing
headgate bench --jobs 1000 --json
"""
_LABEL = {"headgate": "bench"}
_PATIENCE = 120.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--jobs", type=int, default=100, metavar="N", help="how many in each part (default 100)")
    server_options(parser)
    parser.set_defaults(run=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    api, count = connect(arguments), max(1, arguments.jobs)
    found: dict[str, float] = {}
    steps: tuple[tuple[str, Callable[[], float]], ...] = (
        ("status calls per s", lambda: _rate(lambda: api.get("/v2/status"), count)),
        ("submissions per s, one by one", lambda: _rate(lambda: api.post("/v2/jobs", _later()), count)),
        ("submissions per s, in bulk", lambda: _bulk(api, count)),
        ("commands run per s", lambda: _drain(api, count)),
        ("submit to end of one command, ms", lambda: 1000 / _rate(lambda: _one(api), max(1, count // 10))),
    )
    try:
        with progress("measuring", len(steps)) as advance:
            for done, (name, measure) in enumerate(steps, 1):
                found[name] = round(measure(), 1)
                advance(done)
    finally:
        _clean(api)
    emit(arguments, found, lambda data: table(("what", "measured"), data.items()))
    return DONE


def _job() -> dict[str, Any]:
    return {"name": "bench", "units": 0, "run": {"kind": "command", "argv": ["true"]}, "labels": _LABEL}


def _later() -> dict[str, Any]:
    """A job that does not run while this is measured."""
    from headgate.bootstrap.machine import now_ms

    return {**_job(), "name": "bench-later", "not_before": now_ms() / 1000 + 3_600}


def _rate(step: Callable[[], Any], count: int) -> float:
    from headgate.bootstrap.machine import stopwatch

    began = stopwatch()
    for _ in range(count):
        step()
    return count / max(1e-9, stopwatch() - began)


def _bulk(api: Api, count: int) -> float:
    return count * _rate(lambda: api.post("/v2/jobs", [_later() for _ in range(count)]), 1)


def _drain(api: Api, count: int) -> float:
    def all_of_them() -> None:
        for job_id in api.post("/v2/jobs", [_job() for _ in range(count)])["ids"]:
            _wait(api, job_id)

    return count * _rate(all_of_them, 1)


def _one(api: Api) -> None:
    _wait(api, api.post("/v2/jobs", {**_job(), "priority": "high"})["ids"][0])


def _wait(api: Api, job_id: str) -> None:
    from headgate.bootstrap.machine import pause, stopwatch

    until = stopwatch() + _PATIENCE
    while api.get(f"/v2/jobs/{part(job_id)}")["state"] not in ENDED:
        if stopwatch() > until:
            raise Failure(TIMED_OUT, f"{job_id} did not end within {_PATIENCE:.0f} s; see headgate explain {job_id}")
        pause(0.002)


def _clean(api: Api) -> None:
    """Take away the jobs that were only submitted."""
    while jobs := api.get("/v2/jobs", state="queued", name="bench-later", limit=500)["jobs"]:
        for job in jobs:
            api.post(f"/v2/jobs/{part(job['id'])}/cancel", {"reason": "bench"})
