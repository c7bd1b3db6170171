"""What commands show of a job: a row of a list, its output, its moments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headgate.cli.api import Api, part
from headgate.cli.output import age, state

STATES = ("blocked", "queued", "leased", "running", "completed", "failed", "expired", "cancelled")
ENDED = frozenset(STATES[4:])


def row(job: dict[str, Any], now: float) -> tuple[Any, ...]:
    """What a list shows of a job."""
    began, ended = job.get("started_at"), job.get("ended_at")
    took = None if began is None else (ended or now) - began
    created = job.get("created_at", now)
    name = job["name"] if len(job["name"]) <= 32 else job["name"][:31] + "…"
    return job["id"], name, state(job["state"]), job["class"], job.get("units", 1), age(now - created), age(took)


def logs(api: Api, job_id: str, after: int | None = None) -> dict[str, Any]:
    """What a job printed after a place: `text`, and `next`, the place to go on from."""
    answer = api.get(f"/v2/jobs/{part(job_id)}/logs", after=after)
    entries = answer["logs"]
    text = "".join(entry["text"] for entry in entries)
    return {"text": text, "next": entries[-1]["number"] if entries else after}


def instant(seconds: float | None) -> str | None:
    """A moment in words, UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def expected(start: dict[str, Any]) -> str:
    """An expected start in words; how far to trust it belongs to it."""
    from headgate.bootstrap.machine import now_ms

    now = now_ms() / 1000
    middle, low, high = (age(max(0.0, start[name] - now)) for name in ("start", "low", "high"))
    seen = start["learned_from"]
    basis = f"from {seen} earlier waits" if seen else "a guess: no job has waited yet"
    return f"in {middle}, four times in five within {low} to {high} ({basis})"
