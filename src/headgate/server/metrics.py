"""Prometheus metrics: counted from committed events, and read from the state when somebody asks.

Counting happens for every job, so it is plain addition here; the library only writes the figures down.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.core import events as e
from headgate.core.job import CLASSES
from headgate.engine.aio import AsyncEngine
from headgate.engine.questions import GetStatus, Status, answer
from headgate.policy.managing import Policies
from headgate.server.intake import Intake

MEDIA = b"text/plain; version=0.0.4; charset=utf-8"
_WAITS = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1_800, 7_200, 43_200)
_TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_COUNTED: dict[type[e.Event], str] = {
    e.JobSubmitted: "submitted",
    e.LeaseGranted: "granted",
    e.JobStarted: "started",
    e.JobCompleted: "completed",
    e.AttemptFailed: "attempt_failed",
    e.LeaseExpired: "expired",
    e.LeaseReleased: "released",
    e.JobCancelled: "cancelled",
    e.DeadlineMissed: "deadline_missed",
    e.DependencyFailed: "dependency_failed",
    e.PreemptionAsked: "preemption_asked",
    e.JobAged: "aged",
}
_ENDS = (e.JobCompleted, e.AttemptFailed, e.LeaseExpired, e.LeaseReleased)


class Times:
    """Durations in buckets."""

    __slots__ = ("counts", "limits", "total")

    def __init__(self, limits: tuple[float, ...]) -> None:
        self.limits = limits
        self.counts = [0] * (len(limits) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(self.limits, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """How many were at most so long."""
        names = [*(str(float(limit)) for limit in self.limits), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))


class Metrics:
    """Figures of this server; one registry for each, so that two servers of a process do not mix."""

    def __init__(self, engine: AsyncEngine, intake: Intake, policies: Policies | None) -> None:
        self._engine = engine
        self.events = dict.fromkeys(_COUNTED.values(), 0)
        self.waits = {name: Times(_WAITS) for name in CLASSES}
        self.leases = Times(_WAITS)
        self.requests: dict[tuple[str, int], int] = {}
        self.answers: dict[str, Times] = {}
        self._granted_at: dict[str, int] = {}
        self.handlers: dict[type[e.Event], Callable[[Any], None]] = {
            kind: self._counting(name) for kind, name in _COUNTED.items()
        }
        self.handlers[e.LeaseGranted] = self._granted
        self.handlers |= {kind: self._lease_ended(_COUNTED[kind]) for kind in _ENDS}
        self._registry = CollectorRegistry()
        self._registry.register(_Figures(self, engine, intake, policies))

    def restart(self) -> None:
        """Counts go on; leases are timed from when they were granted."""
        self._granted_at = {lease.id: lease.granted_at for lease in self._engine.writer.state.leases.values()}

    def settle(self, events: Sequence[e.Event]) -> None:
        """Nothing is left for the end of a commit."""

    def answered(self, call: str, status: int, took: float | None) -> None:
        """A request was answered; long polls are counted and not timed."""
        self.requests[call, status] = self.requests.get((call, status), 0) + 1
        if took is not None:
            times = self.answers.get(call)
            if times is None:
                times = self.answers[call] = Times(_TIMES)
            times.add(took)

    def render(self) -> bytes:
        """All of them, in the text format."""
        return bytes(generate_latest(self._registry))

    def _counting(self, name: str) -> Callable[[Any], None]:
        events = self.events

        def count(_: Any) -> None:
            events[name] += 1

        return count

    def _granted(self, event: e.LeaseGranted) -> None:
        self.events["granted"] += 1
        self._granted_at[event.lease_id] = event.at
        job = self._engine.writer.state.jobs.get(event.job_id)
        if job is not None:
            self.waits[CLASSES[job.kind.job_class]].add(max(0, event.at - job.queued_at) / 1000)

    def _lease_ended(self, name: str) -> Callable[[Any], None]:
        def ended(event: Any) -> None:
            self.events[name] += 1
            self._let_go(event.lease_id, event.at)

        return ended

    def _let_go(self, lease_id: str, at: int) -> None:
        granted_at = self._granted_at.pop(lease_id, None)
        if granted_at is not None:
            self.leases.add(max(0, at - granted_at) / 1000)


class _Figures(Collector):
    """Writes down what was counted, and what is true at the moment of asking."""

    def __init__(self, metrics: Metrics, engine: AsyncEngine, intake: Intake, policies: Policies | None) -> None:
        self._metrics = metrics
        self._engine = engine
        self._intake = intake
        self._policies = policies

    def describe(self) -> list[Metric]:
        """Nothing needs to be known before it is asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families."""
        writer = self._engine.writer
        status = answer(GetStatus(), writer.state, writer.store, self._engine.clock.now())
        yield from self._jobs(status)
        yield from self._capacity(status)
        yield from self._predictions(status)
        yield from self._store()
        yield from self._server()
        if self._policies is not None:
            yield from self._policy(self._policies)

    def _jobs(self, status: Status) -> Iterator[Metric]:
        metrics = self._metrics
        yield _counts("headgate_jobs", "Jobs by what happened to them.", ("event",), metrics.events)
        yield _by("headgate_jobs_live", "Jobs in memory, by state.", "state", status.states)
        yield _by("headgate_queue_ready", "Jobs that could start, by class.", "class", status.ready_by_class)
        yield _times("headgate_wait_seconds", "Time from queueing to a lease.", "class", metrics.waits)
        held = HistogramMetricFamily("headgate_lease_seconds", "Time from a lease to its end.")
        held.add_metric([], metrics.leases.buckets(), metrics.leases.total)
        yield held
        yield _one("headgate_leases", "Live leases.", len(self._engine.writer.state.leases))
        yield _by("headgate_workers", "Workers, by status.", "status", status.workers)

    def _predictions(self, status: Status) -> Iterator[Metric]:
        found = status.predictions
        if found is None:
            return
        turned_out = {name: getattr(found, name) for name in ("inside", "before", "after")}
        text = "Expected starts, by where the job started against its interval."
        yield _counts("headgate_predictions", text, ("start",), turned_out)

    def _capacity(self, status: Status) -> Iterator[Metric]:
        units = {name: getattr(status, f"{name}_units") for name in ("total", "usable", "leased", "free")}
        yield _by("headgate_capacity_units", "Capacity units.", "kind", units)
        yield _one("headgate_busy_rating", "The busy rating, 0 to 10.", status.busy)
        yield _by("headgate_busy_signal", "What each signal of load is rated.", "signal", status.signals)

    def _store(self) -> Iterator[Metric]:
        writer = self._engine.writer
        yield _one("headgate_ready", "Whether the engine serves.", int(writer.stopped is None))
        yield _one("headgate_commit_seconds", "What a commit takes, running average.", self._engine.commit_ms / 1000)
        yield _total("headgate_commits", "Commits of this database.", writer.number)
        yield _total("headgate_recoveries", "Times the state was rebuilt from the store.", writer.recoveries)
        yield _one("headgate_history_backlog", "Events not yet in the history of their jobs.", writer.index_backlog)

    def _server(self) -> Iterator[Metric]:
        metrics = self._metrics
        requests = {(call, str(status)): count for (call, status), count in metrics.requests.items()}
        yield _counts("headgate_http_requests", "Requests answered.", ("call", "status"), requests)
        yield _times(
            "headgate_http_request_seconds",
            "Time to answer, without what waited for something.",
            "call",
            metrics.answers,
        )
        yield _one("headgate_http_in_progress", "Requests in progress.", self._intake.inside)
        away = {urgency.name.lower(): count for urgency, count in self._intake.turned_away.items()}
        yield _counts("headgate_http_turned_away", "Requests refused in a crowd.", ("urgency",), away)

    def _policy(self, policies: Policies) -> Iterator[Metric]:
        status = policies.status()
        decided = {"policy": status.decisions - status.by_platform, "platform": status.by_platform}
        yield _counts("headgate_decisions", "Decisions, by who decided.", ("by",), decided)
        yield _counts("headgate_policy_fallbacks", "Failed decisions, by kind.", ("kind",), status.failures)
        yield _total("headgate_policy_refused_actions", "Proposed actions that did not hold.", status.refusals)
        yield _one("headgate_policy_tripped", "Whether the active policy was taken out.", int(bool(status.tripped)))
        yield _by("headgate_policy_metric", "What the policy itself reports.", "name", status.metrics)


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _total(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([str(key)], value)
    return family


def _counts(name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(list(key) if isinstance(key, tuple) else [str(key)], value)
    return family


def _times(name: str, text: str, label: str, values: Mapping[str, Times]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[label])
    for key, times in values.items():
        family.add_metric([key], times.buckets(), times.total)
    return family
