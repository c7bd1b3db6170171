"""What came of worlds side by side: each with its figures, and the second against the first, job by job.

A job that has not started when the time is over counts as waiting until then, in both worlds alike: leaving it out
would make the policy look best that lets most jobs wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.core.job import CLASSES
from headgate.policy.statistics import Interval, block_bootstrap, bounded_slowdown
from headgate.sim.compare import Divergence, divergence_of
from headgate.sim.lockstep import Lane
from headgate.sim.records import JobRecord

MOST_SHIFTS = 100


class Shift(msgspec.Struct, frozen=True):
    """A job that starts at another time. Seconds since the beginning of the simulation."""

    job_id: str
    tenant: str
    job_class: str
    before: float | None = None
    """None: not within the time looked at."""
    after: float | None = None
    wait_change: float = 0.0


class GroupChange(msgspec.Struct):
    """The jobs of one class or tenant; means, in seconds."""

    jobs: int = 0
    wait_before: float = 0.0
    wait_after: float = 0.0
    slowdown_before: float = 0.0
    slowdown_after: float = 0.0


class Change(msgspec.Struct):
    """The second world against the first; below zero is better."""

    wait: Interval
    slowdown: Interval
    utilisation: float
    """The difference of the two shares."""
    jobs: int
    better: int
    worse: int
    """Jobs that wait less, and jobs that wait more, by a second and more."""
    classes: dict[str, GroupChange]
    tenants: dict[str, GroupChange]
    shifts: list[Shift]
    """The jobs whose start moves most."""
    divergence: Divergence | None = None


class Side(msgspec.Struct):
    """One world."""

    policy: str
    changes: str
    started: int
    """Jobs that started within the time, of those that waited or came."""
    ended: int
    utilisation: float
    mean_wait: float
    mean_slowdown: float
    failures: dict[str, int]
    refusals: int
    decisions: int


class Outcome(msgspec.Struct):
    """What a simulation has shown. Times are seconds since its beginning."""

    workload: str
    jobs: int
    seconds: float
    begin: int
    tick: float
    """Times of decisions are in units of `tick` seconds; the simulation starts at `begin`."""
    seeds: int
    sides: list[Side]
    change: Change | None = None
    notes: list[str] = []
    cut: bool = False
    """The simulation took too long and was stopped: this is what it had shown until then."""


class _Job(msgspec.Struct, frozen=True):
    """A job in one world, waits counted to the end of what is looked at."""

    record: JobRecord
    wait: float
    slowdown: float


def outcome(
    workload: str, rounds: Sequence[Sequence[Lane]], begin: int, until: int, changes: Sequence[str] = ()
) -> Outcome:
    """Sum up: one round of worlds for each seed."""
    sides = [_jobs(lanes, until) for lanes in rounds]
    jobs = len(sides[0][0]) if sides and sides[0] else 0
    found = Outcome(workload, jobs, (until - begin) * _tick(rounds), begin, _tick(rounds), len(rounds), [])
    for place, name in enumerate(_names(rounds[0])):
        words = changes[place] if place < len(changes) else ""
        found.sides.append(_side(name, words, [lanes[place] for lanes in rounds], [j[place] for j in sides], until))
    if len(found.sides) > 1:
        found.change = _change(rounds, sides, begin, found.sides)
    return found


def _tick(rounds: Sequence[Sequence[Lane]]) -> float:
    return rounds[0][0].collector.tick


def _names(lanes: Sequence[Lane]) -> list[str]:
    """Two of the same name are told apart by their place."""
    names = [lane.opened.name for lane in lanes]
    return [f"{name} ({n + 1})" if names.count(name) > 1 and n else name for n, name in enumerate(names)]


def _jobs(lanes: Sequence[Lane], until: int) -> list[dict[str, _Job]]:
    """Of every world the jobs that a policy could do something about: not those that ran when it began."""
    fixed = lanes[0].fixed
    return [
        {r.id: _job(r, lane, until) for r in lane.records if r.id not in fixed and r.state != "refused"}
        for lane in lanes
    ]


def _job(record: JobRecord, lane: Lane, until: int) -> _Job:
    tick = lane.collector.tick
    started = record.started if record.started is not None else until
    run = max(record.run, lane.planned.get(record.id, 0)) if record.state in ("running", "waiting") else record.run
    turnaround = (record.ended - record.submitted) * tick
    slowdown = bounded_slowdown(turnaround, run * tick)
    return _Job(record, max(0, started - record.submitted) * tick, slowdown)


def _side(name: str, changes: str, lanes: list[Lane], jobs: list[dict[str, _Job]], until: int) -> Side:
    every = [job for each in jobs for job in each.values()]
    failures: dict[str, int] = {}
    for lane in lanes:
        for kind, count in lane.opened.failures.items():
            failures[kind] = failures.get(kind, 0) + count
    return Side(
        name, changes, sum(job.record.started is not None for job in jobs[0].values()),
        sum(job.record.state not in ("running", "waiting") for job in jobs[0].values()),
        sum(lane.used(until) for lane in lanes) / len(lanes),
        sum(job.wait for job in every) / max(1, len(every)), sum(job.slowdown for job in every) / max(1, len(every)),
        failures, sum(lane.world.counts.refusals for lane in lanes), sum(lane.opened.decisions for lane in lanes),
    )  # fmt: skip


def _change(
    rounds: Sequence[Sequence[Lane]], sides: list[list[dict[str, _Job]]], begin: int, figures: list[Side]
) -> Change:
    pairs = [
        (first[id_], second[id_])
        for first, second in ((each[0], each[1]) for each in sides)
        for id_ in sorted(first, key=lambda name, first=first: (first[name].record.submitted, name))  # type: ignore[misc]
        if id_ in second
    ]
    waits = [after.wait - before.wait for before, after in pairs]
    parting = next((d for lanes in rounds if (d := _divergence(lanes)) is not None), None)
    return Change(
        block_bootstrap(waits), block_bootstrap([after.slowdown - before.slowdown for before, after in pairs]),
        figures[1].utilisation - figures[0].utilisation, len(pairs),
        sum(value <= -1 for value in waits), sum(value >= 1 for value in waits),
        _groups(pairs, "class"), _groups(pairs, "tenant"),
        _shifts(pairs[: len(sides[0][0])], begin, rounds[0][0].collector.tick), parting,
    )  # fmt: skip


def _divergence(lanes: Sequence[Lane]) -> Divergence | None:
    first, second = (lane.collector.grants for lane in lanes[:2])
    return divergence_of(lanes[0].seed, first, second)


def _groups(pairs: list[tuple[_Job, _Job]], by: str) -> dict[str, GroupChange]:
    groups: dict[str, GroupChange] = {}
    for before, after in pairs:
        record = before.record
        group = groups.setdefault(record.tenant if by == "tenant" else CLASSES[record.job_class], GroupChange())
        group.jobs += 1
        group.wait_before += before.wait
        group.wait_after += after.wait
        group.slowdown_before += before.slowdown
        group.slowdown_after += after.slowdown
    for group in groups.values():
        for field in ("wait_before", "wait_after", "slowdown_before", "slowdown_after"):
            setattr(group, field, getattr(group, field) / group.jobs)
    order = CLASSES if by == "class" else sorted(groups, key=lambda name: (-groups[name].jobs, name))
    return {name: groups[name] for name in order if name in groups}


def _shifts(pairs: list[tuple[_Job, _Job]], begin: int, tick: float) -> list[Shift]:
    found = [
        Shift(
            before.record.id, before.record.tenant, CLASSES[before.record.job_class],
            _since(before.record.started, begin, tick), _since(after.record.started, begin, tick),
            after.wait - before.wait,
        )
        for before, after in pairs
        if before.record.started != after.record.started
    ]  # fmt: skip
    return sorted(found, key=lambda shift: (-abs(shift.wait_change), shift.job_id))[:MOST_SHIFTS]


def _since(at: int | None, begin: int, tick: float) -> float | None:
    return None if at is None else (at - begin) * tick
