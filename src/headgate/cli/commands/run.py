"""`headgate run`: like running the command here, only that it waits for its turn."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType
from typing import Any

from headgate.cli.api import Api, connect, part
from headgate.cli.exits import DONE, FAILED, NOT_RUN, TIMED_OUT, Failure
from headgate.cli.jobspec import job_body, job_options
from headgate.cli.jobview import ENDED, logs
from headgate.cli.options import server_options
from headgate.cli.output import emit
from headgate.cli.terminal import harmless, unguarded

EXAMPLES = """
headgate run -- make all                      exits with the code of make
headgate run -p high -u 10 -- ./heavy.sh | tee heavy.log
headgate run --quiet -- true && echo fine
"""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    job_options(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print the output of the command and nothing else")
    server_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    for which in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(which, _tell)
    submitted = api.post("/v2/jobs", job_body(arguments, local=api.local))
    job_id = submitted["ids"][0]
    quiet = arguments.quiet or arguments.json
    for warning in submitted.get("warnings", []):
        _say(f"warning: {warning}")
    try:
        job = _follow(api, job_id, quiet=quiet, silent=arguments.json)
    except BrokenPipeError:  # whoever reads has seen enough; in a pipe of its own the command would end now
        _cancel(api, job_id, "nobody reads its output")
        raise
    except KeyboardInterrupt as told:
        _cancel(api, job_id, "interrupted")
        if isinstance(told, _Told):
            return told.code
        raise
    except Failure:
        _say(f"{job_id} was submitted and goes on, but cannot be followed")
        raise
    if arguments.json:
        emit(arguments, job, lambda _: None)
    elif not quiet and job["state"] != "completed":
        error = job.get("error") or {}
        _say(f"{job_id} {job['state']}: {error.get('message') or error.get('code', '')}".rstrip(": "))
    return exit_code(job)


class _Told(KeyboardInterrupt):
    """Somebody else than the keyboard wants this to end: `timeout`, a service manager, a terminal that closes."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number


def _tell(number: int, _: FrameType | None) -> None:
    raise _Told(number)


def _follow(api: Api, job_id: str, *, quiet: bool, silent: bool) -> dict[str, Any]:
    """Show the output as it comes and say once why the job waits; the job as it ended."""
    from headgate.bootstrap.machine import pause

    place: int | None = None
    wait, told = _FIRST_PAUSE, quiet
    while True:
        job: dict[str, Any] = api.get(f"/v2/jobs/{part(job_id)}")
        found: dict[str, Any] = {"text": "", "next": place}
        if job.get("attempt") or job["state"] in ENDED:
            found = logs(api, job_id, place)
        place = found["next"]
        if found["text"] and not silent:
            output = unguarded()
            output.write(found["text"])
            output.flush()
        if job["state"] in ENDED:
            return job
        if not told and wait >= _LONGEST_PAUSE and job["state"] in ("queued", "blocked"):
            told = True
            reasons = api.get(f"/v2/jobs/{part(job_id)}/explain")["reasons"]
            _say(f"{job_id} waits: " + "; ".join(str(reason.get("detail") or reason["code"]) for reason in reasons))
        wait = _FIRST_PAUSE if found["text"] else min(_LONGEST_PAUSE, wait * 1.5)
        pause(wait)


def _cancel(api: Api, job_id: str, reason: str) -> None:
    api.post(f"/v2/jobs/{part(job_id)}/cancel", {"reason": reason})
    _say(f"{job_id} was cancelled")


def _say(text: str) -> None:
    print(f"headgate: {harmless(text)}", file=sys.stderr)


def exit_code(job: dict[str, Any]) -> int:
    """The code of the command itself, as a shell would give it; else what became of the job."""
    if job["state"] == "completed":
        return DONE
    error = job.get("error") or {}
    if error.get("exit_status"):
        return int(error["exit_status"])
    if error.get("code") in ("timeout", "timed_out"):
        return TIMED_OUT
    is_function = (job.get("run") or {}).get("kind") != "command"
    return FAILED if is_function and job["state"] == "failed" else NOT_RUN
