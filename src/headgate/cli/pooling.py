"""A pool agent process: from options to reports, and what it says of them."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from headgate.bootstrap.load import pool_agent
from headgate.bootstrap.machine import chance, told_to_stop
from headgate.bootstrap.pooling import Beat, PoolCalls, Reporting
from headgate.cli.api import Api, failed_call
from headgate.cli.exits import DONE
from headgate.cli.output import pairs, rating, table
from headgate.config import Config
from headgate.core.errors import HeadgateError


class Wanted(msgspec.Struct, frozen=True):
    """What the pool shall be."""

    id: str
    node: str
    units: int
    resources: dict[str, str]
    config: Config
    as_json: bool


def report_once(url: str, token: str | None, wanted: Wanted) -> int:
    """Report, show the report, exit."""
    with _reporting(url, token, wanted) as (reporting, _):
        beat = reporting.once(threading.Event())
    if beat.report is None:
        raise _failure(beat.failure, url)
    if wanted.as_json:
        print(json.dumps(_as_data(wanted.id, beat)))
    else:
        _show(wanted, beat)
    return DONE


def report_on(url: str, token: str | None, wanted: Wanted) -> int:
    """Report until SIGTERM or Ctrl-C, then say goodbye."""
    told = told_to_stop()
    with _reporting(url, token, wanted) as (reporting, speaker):
        speaker.line(f"pool {wanted.id} reports to {url} every {wanted.config.core.poll / 1000:g} s")
        try:
            reporting.run(told)
        except HeadgateError as error:
            raise _failure(error, url) from error
    speaker.line("stopped")
    return DONE


@contextlib.contextmanager
def _reporting(url: str, token: str | None, wanted: Wanted) -> Iterator[tuple[Reporting, _Speaker]]:
    http = Api(url, token).http
    calls, core = PoolCalls(http), wanted.config.core
    agent = pool_agent(
        wanted.id,
        node=wanted.node,
        units=wanted.units,
        resources=wanted.resources,
        disk=wanted.config.load.disk,
        settings=core,
    )
    speaker = _Speaker(wanted, url)
    try:
        _warn_of_neighbours(calls, wanted, speaker)
        yield Reporting(agent, calls, core.poll, chance, speaker.tell), speaker
    finally:
        agent.stop()
        http.close()


def _warn_of_neighbours(calls: PoolCalls, wanted: Wanted, speaker: _Speaker) -> None:
    """Two machines under one name would overwrite each other's rating. A server that is away is met later."""
    with contextlib.suppress(HeadgateError, OSError):
        other = calls.neighbour(wanted.id, wanted.node)
        if other is not None:
            speaker.line(f"pool {wanted.id} is reported by {other} as well: give each machine a pool of its own")


def _failure(error: Exception | None, url: str) -> Exception:
    if error is None:
        raise AssertionError("a report that did not arrive has a reason")
    return failed_call(error, url) or error


class _Speaker:
    """Says what changes: the rating by whole steps, what could not be measured, whether the server hears."""

    def __init__(self, wanted: Wanted, url: str) -> None:
        self._wanted = wanted
        self._url = url
        self._last: tuple[Any, ...] = ()
        self._asked: frozenset[str] = frozenset()

    def tell(self, beat: Beat) -> None:
        """One report was sent, or was not."""
        if self._wanted.as_json:
            print(json.dumps(_as_data(self._wanted.id, beat)), flush=True)
            return
        if beat.report is None:
            again = f"; trying again in {beat.again_in:.1f} s" if beat.again_in else ""
            self.line(f"not reported: {_failure(beat.failure, self._url)}{again}")
            self._last = ()
            return
        report = beat.report
        said = (int(report.busy or 0), report.reasons, len(report.gpus))
        if said != self._last:
            why = "; ".join(report.reasons) or report.bottleneck or ("idle" if report.signals else "set by hand")
            gpus = f", {len(report.gpus)} GPUs" if report.gpus else ""
            self.line(f"pool {report.id}: busy {report.busy:.1f} of 10 ({why}){gpus}")
        self._last = said
        for wanted in beat.wanted:
            if wanted.id not in self._asked:
                where = f" on {', '.join(wanted.gpu_ids)}" if wanted.gpu_ids else ""
                self.line(f"pool {report.id} is asked for worker {wanted.id} with model {wanted.model_ref}{where}")
        self._asked = frozenset(wanted.id for wanted in beat.wanted)

    def line(self, text: str) -> None:
        """On standard error: standard output is for programs."""
        with contextlib.suppress(OSError):
            print(f"headgate pool: {text}", file=sys.stderr, flush=True)


def _as_data(pool_id: str, beat: Beat) -> dict[str, Any]:
    if beat.report is None:
        return {"pool": pool_id, "sent": False, "problem": str(beat.failure), "again_in": round(beat.again_in, 3)}
    report = beat.report
    return {
        "pool": pool_id,
        "sent": True,
        "node": report.node,
        "busy": report.busy,
        "units": report.units,
        "signals": dict(report.signals),
        "reasons": list(report.reasons),
        "gpus": [{**msgspec.structs.asdict(gpu), "vram_free": gpu.vram_free} for gpu in report.gpus],
        "wanted": [msgspec.structs.asdict(wanted) for wanted in beat.wanted],
    }


def _show(wanted: Wanted, beat: Beat) -> None:
    report = beat.report
    if report is None:
        return
    pairs([("pool", report.id), ("node", report.node), ("busy", rating(report.busy or 0.0)), ("units", report.units)])
    pairs([("resources", wanted.resources), ("reasons", list(report.reasons))])
    table(("signal", "counts as"), [(name, f"{value:.1f}") for name, value in report.signals])
    if report.gpus:
        rows = [(gpu.id, gpu.name, gpu.vram_free, f"{gpu.utilization:.0%}", gpu.temperature) for gpu in report.gpus]
        table(("gpu", "name", "vram free", "use", "degrees"), rows)
