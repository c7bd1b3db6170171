"""What `headgate top` shows, as text of so many lines."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from headgate.bootstrap.machine import now_ms
from headgate.cli.jobview import row
from headgate.cli.output import paint, table
from headgate.cli.poolview import show_pools

_BAR = 30


def render(look: dict[str, Any], lines: int) -> str:
    """The view, cut to the height of the terminal."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        _head(look["status"])
        _pools(look["pools"])
        _workers(look["workers"])
        _jobs("running", look["running"])
        _jobs("waiting", look["waiting"])
    return "\n".join(out.getvalue().splitlines()[: max(1, lines)])


def _head(status: dict[str, Any]) -> None:
    capacity = status["capacity"]
    busy, total = capacity["busy"], max(1, capacity["total_units"])
    policy = status.get("policy", {})
    who = policy.get("deciding") or "platform"
    print(f"{paint('headgate', 'bold')} {status['version']}   policy {who}")
    print(f"busy   {_bar(busy / 10)} {busy:.1f} of 10")
    leased, usable = capacity["leased_units"], capacity["usable_units"]
    print(f"units  {_bar(leased / total)} {leased} leased, {usable} usable of {capacity['total_units']}")
    print(f"load   {_signals(capacity.get('signals', {}))}")
    jobs = "  ".join(f"{count} {name}" for name, count in status["jobs"].items() if count)
    print(f"jobs   {jobs or 'none'}")
    predictions = status.get("predictions") or {}
    if predictions.get("started"):
        print(f"starts {predictions['inside']} of {predictions['started']} were as expected (four in five should be)")
    for text in dict.fromkeys((*status.get("degraded", ()), *capacity.get("reasons", ()))):
        print(paint(f"       {text}", "red"))


def _signals(signals: dict[str, float]) -> str:
    """The signals that make the rating, the highest first."""
    rated = sorted(((value, name) for name, value in signals.items() if value), reverse=True)
    return "  ".join(f"{name} {value:.1f}" for value, name in rated) or "nothing is busy"


def _pools(pools: list[dict[str, Any]]) -> None:
    reporting = [pool for pool in pools if pool.get("last_report") is not None]
    if reporting:
        print()
        show_pools(reporting)


def _bar(share: float) -> str:
    share = min(1.0, max(0.0, share))
    filled = round(share * _BAR)
    colour = "green" if share < 0.4 else "yellow" if share < 0.8 else "red"
    return paint("█" * filled, colour) + paint("·" * (_BAR - filled), "grey")


def _workers(workers: list[dict[str, Any]]) -> None:
    print()
    rows = [
        (worker["id"], worker["status"], f"{worker['running']}/{worker['slots']}", worker.get("completed", 0))
        for worker in workers
    ]
    table(("worker", "status", "busy", "completed"), rows)


def _jobs(title: str, jobs: list[dict[str, Any]]) -> None:
    if not jobs:
        return
    now = now_ms() / 1000
    print()
    table((title, "name", "state", "class", "units", "age", "took"), [row(job, now) for job in jobs])
