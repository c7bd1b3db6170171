"""`headgate job`: one job with its history and output."""

from __future__ import annotations

import argparse
import json
from typing import Any

from headgate.cli.api import Api, connect, part
from headgate.cli.exits import DONE, FAILED, TIMED_OUT, USAGE, Failure
from headgate.cli.jobview import ENDED, STATES, expected, instant, logs
from headgate.cli.options import server_options
from headgate.cli.output import emit, field, paint, pairs, state

EXAMPLES = """
headgate job 01JC...
headgate job 01JC... --logs        only what it printed
headgate job 01JC... --events      and what happened to it
headgate job 01JC... --wait ended  wait until it has ended, then show it
headgate job 01JC... --get worker_id
"""
_FIRST = ("id", "name", "state", "class", "priority", "tenant", "type", "units")
_TIMES = ("created_at", "queued_at", "not_before", "deadline", "started_at", "ended_at")
_PLAIN = ("attempt", "worker_id", "lease_id", "retry_of", "pool", "resources", "labels", "requires", "dependencies")


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("id", metavar="JOB", help="the id of the job")
    parser.add_argument("--logs", action="store_true", help="print its output and nothing else")
    parser.add_argument("--events", action="store_true", help="print its history too")
    parser.add_argument("--wait", metavar="STATE", help="wait until it is in this state, or 'ended'; commas mean or")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="how long to wait (default 300)")
    parser.add_argument("--get", metavar="FIELD", help="print one field and nothing else")
    server_options(parser)
    parser.set_defaults(run=_job)


def _job(arguments: argparse.Namespace) -> int:
    api, path = connect(arguments), f"/v2/jobs/{part(arguments.id)}"
    if arguments.logs:
        emit(arguments, logs(api, arguments.id), lambda data: print(data["text"], end=""))
        return DONE
    job = _awaited(api, path, arguments) if arguments.wait else api.get(path)
    if job["state"] in ("queued", "blocked"):
        explained = api.get(f"{path}/explain")
        job["expected_start"] = explained.get("expected_start")
        job["waits"] = [reason.get("detail") or reason["code"] for reason in explained["reasons"]]
    if arguments.get:
        print(field(job, arguments.get))
        return DONE
    if arguments.events:
        job["events"] = api.get(f"{path}/events")["events"]
    emit(arguments, job, _show)
    return DONE


def _wanted(names: str) -> set[str]:
    """The states to wait for. A misspelt one never comes."""
    wanted = set(names.split(","))
    unknown = wanted - {"ended", *STATES}
    if unknown:
        raise Failure(USAGE, f"--wait: there is no state {min(unknown)!r}; there are ended, {', '.join(STATES)}")
    return wanted | ENDED if "ended" in wanted else wanted


def _awaited(api: Api, path: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The job when it is in one of the states; it is an error if it can no longer come there."""
    from headgate.bootstrap.machine import pause, stopwatch

    until = stopwatch() + arguments.timeout
    wanted = _wanted(arguments.wait)
    while True:
        job: dict[str, Any] = api.get(path)
        if job["state"] in wanted:
            return job
        if job["state"] in ENDED:
            raise Failure(FAILED, f"{job['id']} ended as {job['state']}")
        if stopwatch() > until:
            raise Failure(TIMED_OUT, f"{job['id']} is {job['state']} after {arguments.timeout:g} s")
        pause(0.1)


def _show(job: dict[str, Any]) -> None:
    pairs([(name, state(job[name]) if name == "state" else job.get(name)) for name in _FIRST])
    run = job.get("run") or {}
    pairs([("run", " ".join(run.get("argv") or [run.get("handler") or run.get("url") or run.get("kind") or ""]))])
    pairs([(name.removesuffix("_at"), instant(job.get(name))) for name in _TIMES])
    if job.get("expected_start"):
        pairs([("expected start", expected(job["expected_start"]))])
    for reason in job.get("waits", []):
        pairs([("waits", reason)])
    pairs([(name, job.get(name)) for name in _PLAIN])
    if job.get("result") is not None:
        pairs([("result", json.dumps(job["result"], ensure_ascii=False))])
    if job.get("error"):
        error = job["error"]
        pairs([("error", paint(f"{error['code']}: {error.get('message', '')}", "red"))])
        print(error.get("traceback", ""), end="")
    for event in job.get("events", []):
        data = " ".join(f"{name}={value}" for name, value in event.get("data", {}).items())
        print(f"  {instant(event['at'])}  {event['type']:<12} {data}")
