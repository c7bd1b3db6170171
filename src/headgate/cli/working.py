"""A worker process: from options to a runtime that works until a signal comes."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import msgspec

from headgate.app import App
from headgate.bootstrap.machine import told_to_stop
from headgate.cli.api import failed_call
from headgate.cli.exits import DONE, USAGE, Failure
from headgate.core.errors import HeadgateError
from headgate.worker.link import LinkDown
from headgate.worker.printing import captured
from headgate.worker.runtime import Options, Runtime
from headgate.worker.sources import load

_STOP = 2.0
"""Seconds that a job gets between SIGTERM and SIGKILL when the worker leaves."""


class Wanted(msgspec.Struct, frozen=True):
    """What the worker shall be."""

    id: str | None
    slots: int
    pool: str
    resources: dict[str, str]
    labels: dict[str, str]
    types: list[str] | None
    app: str | None
    drain: float
    quiet: bool = False


def work(url: str, token: str | None, wanted: Wanted) -> int:
    """Work until SIGTERM or Ctrl-C, let running jobs finish in time, leave."""
    enough = told_to_stop()
    labels = {"host": os.uname().nodename, "pid": str(os.getpid()), **wanted.labels}
    with captured(), _app(url, token, wanted.app) as app:
        worker = app.worker(
            worker_id=wanted.id,
            slots=wanted.slots,
            pool=wanted.pool,
            resources=wanted.resources,
            labels=labels,
            types=wanted.types,
            handlers=wanted.app is not None,
            options=Options(drain=wanted.drain, grace=_STOP),
        )
        worker.dismissed = lambda why: _dismissed(enough, worker.spec.id, why)
        _start(worker, url)
        if not wanted.quiet:
            print(f"worker {worker.spec.id} works for {url} with {wanted.slots} slots", file=sys.stderr, flush=True)
        try:
            enough.wait()
        finally:
            worker.stop()
    return DONE


def _start(worker: Runtime, url: str) -> None:
    try:
        worker.start()
    except HeadgateError as error:
        cause = error.__cause__ if isinstance(error, LinkDown) else error
        raise failed_call(cause or error, url) or error from error


def _dismissed(enough: threading.Event, worker_id: str, why: str) -> None:
    print(f"worker {worker_id} was told to leave: {why}", file=sys.stderr, flush=True)
    enough.set()


def _app(url: str, token: str | None, source: str | None) -> App:
    if source is None:
        return App(url, token=token)
    if token:
        os.environ["HEADGATE_TOKEN"] = token  # the app reads it there; jobs do not get it
    found = load_app(source)
    found.move(url)
    return found


def load_app(source: str) -> App:
    """The app that `module:app` names, looked for in the working directory first."""
    sys.path.insert(0, str(Path.cwd()))
    found = load(source)
    if not isinstance(found, App):
        raise Failure(USAGE, f"--app {source}: is not a headgate.App")
    return found
