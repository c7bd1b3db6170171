"""Prometheus metrics: counted from committed events, and read from the state when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
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


class Metrics:
    """Counters of this server; one registry for each, so that two servers of a process do not mix."""

    def __init__(self, engine: AsyncEngine, intake: Intake, policies: Policies | None) -> None:
        self.registry = CollectorRegistry()
        self._engine = engine
        make: dict[str, Any] = {"registry": self.registry}
        self.jobs = Counter("headgate_jobs", "Jobs by what happened to them.", ["event"], **make)
        self.waits = Histogram(
            "headgate_wait_seconds", "Time from queueing to a lease.", ["class"], buckets=_WAITS, **make
        )
        self.runs = Histogram("headgate_lease_seconds", "Time from a lease to its end.", buckets=_WAITS, **make)
        self.requests = Counter("headgate_http_requests", "HTTP requests.", ["call", "status"], **make)
        self.times = Histogram(
            "headgate_http_request_seconds", "Time to answer, without long polls.", ["call"], buckets=_TIMES, **make
        )
        self._counts = {name: self.jobs.labels(name) for name in _COUNTED.values()}
        self._waits = [self.waits.labels(name) for name in CLASSES]
        self._answered: dict[tuple[str, int], Counter] = {}
        self._timed: dict[str, Histogram] = {}
        self._granted_at: dict[str, int] = {}
        self.handlers: dict[type[e.Event], Callable[[Any], None]] = {
            kind: self._counting(name) for kind, name in _COUNTED.items()
        }
        self.handlers[e.LeaseGranted] = self._granted
        for kind in (e.JobCompleted, e.AttemptFailed, e.LeaseExpired, e.LeaseReleased):
            self.handlers[kind] = self._lease_ended(_COUNTED[kind])
        self.registry.register(_Present(engine, intake, policies))

    def restart(self) -> None:
        """Counters go on; leases that nobody saw granted are not timed."""
        self._granted_at = {lease.id: lease.granted_at for lease in self._engine.writer.state.leases.values()}

    def settle(self) -> None:
        """Nothing is left for the end of a commit."""

    def answered(self, call: str, status: int, took: float | None) -> None:
        """A request was answered; long polls are counted and not timed."""
        counter = self._answered.get((call, status))
        if counter is None:
            counter = self._answered[call, status] = self.requests.labels(call, str(status))
        counter.inc()
        if took is not None:
            timed = self._timed.get(call)
            if timed is None:
                timed = self._timed[call] = self.times.labels(call)
            timed.observe(took)

    def render(self) -> bytes:
        """All of them, in the text format."""
        return bytes(generate_latest(self.registry))

    def _counting(self, name: str) -> Callable[[Any], None]:
        counter = self._counts[name]
        return lambda _: counter.inc()

    def _granted(self, event: e.LeaseGranted) -> None:
        self._counts["granted"].inc()
        self._granted_at[event.lease_id] = event.at
        job = self._engine.writer.state.jobs.get(event.job_id)
        if job is not None:
            self._waits[job.kind.job_class].observe(max(0, event.at - job.queued_at) / 1000)

    def _lease_ended(self, name: str) -> Callable[[Any], None]:
        counter = self._counts[name]

        def ended(event: Any) -> None:
            counter.inc()
            granted_at = self._granted_at.pop(event.lease_id, None)
            if granted_at is not None:
                self.runs.observe(max(0, event.at - granted_at) / 1000)

        return ended


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


class _Present(Collector):
    """What is true at the moment of asking."""

    def __init__(self, engine: AsyncEngine, intake: Intake, policies: Policies | None) -> None:
        self._engine = engine
        self._intake = intake
        self._policies = policies

    def collect(self) -> Iterator[Metric]:
        writer = self._engine.writer
        if not hasattr(writer, "state"):  # not opened yet
            return
        status = answer(GetStatus(), writer.state, writer.store, self._engine.clock.now())
        yield from self._queue(status)
        yield from self._capacity(status)
        yield from self._store()
        yield from self._server()
        if self._policies is not None:
            yield from self._policy(self._policies)

    def _queue(self, status: Status) -> Iterator[Metric]:
        yield _by("headgate_queue_ready", "Jobs that could start, by class.", "class", status.ready_by_class)
        yield _by("headgate_jobs_live", "Jobs in memory, by state.", "state", status.states)
        yield _by("headgate_workers", "Workers, by status.", "status", status.workers)
        yield _one("headgate_leases", "Live leases.", len(self._engine.writer.state.leases))

    def _capacity(self, status: Status) -> Iterator[Metric]:
        units = {
            "total": status.total_units,
            "usable": status.usable_units,
            "leased": status.leased_units,
            "free": status.free_units,
        }
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
        yield _one("headgate_http_in_progress", "Requests in progress.", self._intake.inside)
        away = CounterMetricFamily("headgate_http_turned_away", "Requests refused in a crowd.", labels=["urgency"])
        for urgency, count in self._intake.turned_away.items():
            away.add_metric([urgency.name.lower()], count)
        yield away

    def _policy(self, policies: Policies) -> Iterator[Metric]:
        status = policies.status()
        decided = CounterMetricFamily("headgate_decisions", "Decisions, by who decided.", labels=["by"])
        decided.add_metric(["policy"], status.decisions - status.by_platform)
        decided.add_metric(["platform"], status.by_platform)
        yield decided
        failed = CounterMetricFamily("headgate_policy_fallbacks", "Failed decisions, by kind.", labels=["kind"])
        for kind, count in status.failures.items():
            failed.add_metric([str(kind)], count)
        yield failed
        yield _total("headgate_policy_refused_actions", "Proposed actions that did not hold.", status.refusals)
        yield _one("headgate_policy_tripped", "Whether the active policy was taken out.", int(bool(status.tripped)))
        yield _by("headgate_policy_metric", "What the policy itself reports.", "name", status.metrics)


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _total(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _by(name: str, text: str, label: str, values: Any) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([str(key)], value)
    return family
