"""The timeline of the Lua contract: what will be free when, and reservations in it."""

from __future__ import annotations

from typing import Any

from headgate.policy.deltas import Delta, MetricsSet
from tests.policy.world import NOW, QUESTION, job, running, runtime_with, worker


def answer(source: str, *deltas: Delta) -> dict[str, Any]:
    """What a policy emits as metrics; -1 stands for nothing."""
    runtime = runtime_with(*deltas)
    runtime.load(
        "local function say(name, value) metrics.emit(name, value or -1) end\n"
        f"function schedule(context) local t = context.helpers.timeline()\n{source}\nreturn nil end"
    )
    found = runtime.ask(QUESTION)
    assert found.error is None, found.error
    return dict(found.metrics)


def units(free: int) -> MetricsSet:
    return MetricsSet({"usable_units": 10, "leased_units": 10 - free})


def busy(*ends: tuple[int, int | None], slots: int = 8, **fields: Any) -> Delta:
    """A worker whose jobs hold so many units until so long after now."""
    jobs = [
        running(f"r{n}", units=held, ends_at=None if end is None else NOW + end) for n, (held, end) in enumerate(ends)
    ]
    return worker("w-1", slots=slots, slots_free=slots - len(jobs), current_jobs=jobs, **fields)


def test_a_job_starts_when_enough_has_ended() -> None:
    world = (units(2), busy((4, 500), (4, 900)), job(1, units=2, estimated_duration_ms=50), job(2, units=7))
    said = answer('say("a", t.earliest("job-1") - context.now) say("b", t.earliest("job-2") - context.now)', *world)
    assert said == {"a": 0, "b": 900}


def test_a_reservation_keeps_others_away_unless_they_end_before_or_fit_beside() -> None:
    world = (
        units(4), busy((6, 500)), job(1, units=8, estimated_duration_ms=1_000),
        job(2, units=4, estimated_duration_ms=500), job(3, units=4, estimated_duration_ms=501),
        job(4, units=2, estimated_duration_ms=9_000),
    )  # fmt: skip
    source = """
    t.reserve("job-1")
    for n = 2, 4 do say("j" .. n, t.earliest("job-" .. n) - context.now) end"""
    assert answer(source, *world) == {"j2": 0, "j3": 1_500, "j4": 0}


def test_what_is_past_its_end_may_end_any_moment_and_what_nobody_knows_never() -> None:
    late = (units(0), busy((10, -5)), job(1, units=1))
    assert answer('say("at", t.earliest("job-1") - context.now)', *late) == {"at": 1}
    unknown = (units(0), busy((10, None)), job(1, units=1))
    assert answer('say("at", t.earliest("job-1"))', *unknown) == {"at": -1}


def test_slots_and_resources_of_workers_count_as_units_do() -> None:
    first = busy((0, 300), slots=1, resources_free={"cpu": 4})
    second = worker(
        "w-2", slots=2, slots_free=1, resources_free={"cpu": 1},
        current_jobs=[running("x", units=0, resources={"cpu": 3}, ends_at=NOW + 200)],
    )  # fmt: skip
    wants = job(1, units=1, resources={"cpu": 4}, estimated_duration_ms=10)
    small = job(2, units=1, resources={"cpu": 1}, estimated_duration_ms=10)
    source = """
    local at, id = t.earliest("job-1")
    say("at", at - context.now) say("on", tonumber(id:sub(3)))
    at, id = t.earliest("job-2")
    say("small", at - context.now) say("there", tonumber(id:sub(3)))"""
    assert answer(source, units(5), first, second, wants, small) == {"at": 200, "on": 2, "small": 0, "there": 2}


def test_a_job_that_fits_nowhere_or_is_not_queued_has_no_start() -> None:
    world = (units(9), busy(), job(1, units=11), job(2, requires={"zone": "moon"}))
    source = 'for n = 1, 3 do say("j" .. n, t.earliest("job-" .. n)) say("r" .. n, t.reserve("job-" .. n)) end'
    assert set(answer(source, *world).values()) == {-1}
