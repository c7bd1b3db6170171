"""The status at a glance, for people: how busy the machine is, what room that leaves, and what the jobs are doing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headgate.core.cluster import Worker
from headgate.server.page import Markup, table
from headgate.wire.http import CapacityOut, JobOut, StatusOut

_NAMES = 64
"""Letters of a job's name that fit."""


def status_page(status: StatusOut, workers: Sequence[Worker], jobs: Sequence[JobOut]) -> str:
    """The content of the page."""
    troubles = "".join(f'<p class="bad">{escape(text)}</p>' for text in _troubles(status))
    return f"""{troubles}<main>
<section><h2>Busy rating</h2>{_busy(status.capacity)}</section>
<section><h2>Capacity</h2>{_units(status.capacity)}</section>
<section><h2>Queue</h2>{table(("ready", "jobs"), status.ready_by_class.items())}</section>
<section><h2>Jobs</h2>{table(("state", "jobs"), status.jobs.items())}</section>
<section class="wide"><h2>Workers</h2>{_workers(workers)}</section>
<section class="wide"><h2>Latest jobs</h2>{_jobs(jobs, status.now)}</section>
</main>
<p><a href="/docs">API documentation</a> · <a href="/openapi.json">openapi.json</a> ·
<a href="/v2/status">status as JSON</a> · <a href="/v2/jobs">jobs as JSON</a> · <a href="/metrics">metrics</a></p>"""


def note(status: StatusOut) -> str:
    """What stands beside the title."""
    deciding = status.policy.get("deciding") or "built-in"
    return f"{escape(status.version)} · policy <b>{escape(str(deciding))}</b> decides · epoch {status.epoch}"


def _troubles(status: StatusOut) -> list[str]:
    capacity = status.capacity
    found = list(dict.fromkeys([*status.degraded, *capacity.reasons]))
    if capacity.usable_units == 0 and not found:
        worst = max(capacity.signals.values(), default=10.0)
        names = ", ".join(name for name, value in sorted(capacity.signals.items()) if value == worst)
        found.append(
            f"Nothing new is started: the machine is busy ({names or 'nothing is measured'}: {worst:.1f} of 10)."
        )
    return found


def _busy(capacity: CapacityOut) -> str:
    mood = "calm" if capacity.busy < 4 else "warm" if capacity.busy < 8 else "hot"
    signals = sorted(capacity.signals.items(), key=lambda signal: (-signal[1], signal[0]))
    rows = [(name, _meter(value, 10), f"{value:.1f}") for name, value in signals]
    figure = f'<p class="figure {mood}">{capacity.busy:.1f} <small>of 10</small></p>'
    return figure + (table(("signal", "", "rated"), rows) or '<p class="quiet">Set by hand; nothing is measured.</p>')


def _units(capacity: CapacityOut) -> str:
    figure = f'<p class="figure">{capacity.free_units} <small>of {capacity.total_units} units free</small></p>'
    rows = [(name, getattr(capacity, f"{name}_units")) for name in ("total", "usable", "leased", "free")]
    return figure + _meter(capacity.leased_units, max(1, capacity.total_units)) + table(("units", ""), rows)


def _meter(value: float, top: float) -> Markup:
    low, high = 0.4 * top, 0.8 * top
    return Markup(f'<meter max="{top:g}" low="{low:g}" high="{high:g}" optimum="0" value="{value:.2f}"></meter>')


def _workers(workers: Sequence[Worker]) -> str:
    rows = [(w.id, w.spec.pool, w.shown_status, len(w.leases), w.spec.slots, w.completed) for w in workers]
    return table(("worker", "pool", "status", "leases", "slots", "completed"), rows) or "<p>None yet.</p>"


def _jobs(jobs: Sequence[JobOut], now: float) -> str:
    rows = [
        (_name(job), job.state, job.job_class, job.tenant, job.attempt, f"{_age(now - job.created_at)} ago")
        for job in jobs
    ]
    return table(("job", "state", "class", "tenant", "attempt", "submitted"), rows) or "<p>None yet.</p>"


def _name(job: JobOut) -> Markup:
    name = job.name if len(job.name) <= _NAMES else job.name[: _NAMES - 1] + "…"
    return Markup(f'<a href="/v2/jobs/{escape(job.id)}">{escape(name or job.id)}</a>')


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
