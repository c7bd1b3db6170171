"""Engines that were frozen or away, and wall clocks that jump. The clock of these processes is moved from here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.child import SETTINGS, SharedTime
from tests.crash.conftest import Process, Run

TTL = SETTINGS.lease_ttl
HOUR = 3_600_000
WALL = 1_700_000_000_000


@pytest.fixture
def time(path: Path) -> SharedTime:
    time = SharedTime(path.with_name("time"))
    time.set(WALL, 5_000_000)
    return time


class Held:
    """A job that is running, and what its holder has in hand."""

    def __init__(self, engine: Process) -> None:
        self.job_id = engine.ask("submit key").split()[1]
        _, self.lease, self.token, leased = engine.ask("lease").split()
        assert leased == self.job_id
        assert engine.ask(f"start {self.lease} {self.token}") == "done start"


def opened(run: Run, path: Path) -> Process:
    engine = run("obedient", path, "w")
    assert engine.line() == f"open {engine.pid}"
    return engine


def let_pass(engine: Process, time: SharedTime, milliseconds: int) -> None:
    """Tick every second, as a live engine does: a longer gap is a pause of the engine itself."""
    for _ in range(milliseconds // 1_000):
        time.advance(1_000)
        assert engine.ask("tick") == "done tick"


def expires_after_a_full_ttl(engine: Process, time: SharedTime, held: Held) -> None:
    let_pass(engine, time, TTL - 1_000)
    assert engine.ask(f"state {held.job_id}") == "state running 1"
    let_pass(engine, time, 2_000)
    assert engine.ask(f"state {held.job_id}") == "state expired 1"


def test_an_engine_that_was_frozen_for_ten_ttls_expires_nobody(run: Run, path: Path, time: SharedTime) -> None:
    engine = opened(run, path)
    held = Held(engine)
    engine.freeze()
    time.advance(10 * TTL)
    engine.thaw()
    assert engine.ask("tick") == "done tick"
    assert engine.ask(f"state {held.job_id}") == "state running 1"
    expires_after_a_full_ttl(engine, time, held)


def test_a_holder_whose_engine_was_frozen_can_complete(run: Run, path: Path, time: SharedTime) -> None:
    engine = opened(run, path)
    held = Held(engine)
    engine.freeze()
    time.advance(10 * TTL)
    engine.thaw()
    assert engine.ask(f"complete {held.lease} {held.token}") == "done complete"
    assert engine.ask(f"state {held.job_id}") == "state completed 1"


@pytest.mark.parametrize("jump", [0, 2 * HOUR, -2 * HOUR], ids=["no jump", "two hours ahead", "two hours back"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_after_three_ttls_of_absence_every_lease_has_a_full_ttl_whatever_the_wall_says(
    run: Run, path: Path, time: SharedTime, jump: int, killed: bool
) -> None:
    engine = opened(run, path)
    held = Held(engine)
    if killed:
        engine.kill()
    else:
        assert engine.end() == 0
    time.set(WALL + 3 * TTL + jump, 17)
    again = opened(run, path)
    assert again.ask("tick") == "done tick"
    assert again.ask(f"state {held.job_id}") == "state running 1"
    expires_after_a_full_ttl(again, time, held)
    assert again.ask(f"complete {held.lease} {held.token}") == "error StaleLease"


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR])
def test_a_wall_clock_that_jumps_under_a_live_engine_moves_nothing(
    run: Run, path: Path, time: SharedTime, jump: int
) -> None:
    engine = opened(run, path)
    held = Held(engine)
    time.set(WALL + jump, 5_000_000)
    assert engine.ask("tick") == "done tick"
    expires_after_a_full_ttl(engine, time, held)


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR])
def test_a_job_that_completed_before_the_wall_jumped_does_not_run_again(
    run: Run, path: Path, time: SharedTime, jump: int
) -> None:
    engine = opened(run, path)
    held = Held(engine)
    assert engine.ask(f"complete {held.lease} {held.token}") == "done complete"
    engine.kill()
    time.set(WALL + jump, 17)
    again = opened(run, path)
    let_pass(again, time, 3_000)
    assert again.ask(f"state {held.job_id}") == "state completed 1"
    assert again.ask("lease") == "lease"
    assert again.ask(f"complete {held.lease} {held.token}") == "done complete"
    assert again.ask("submit key") == f"submitted {held.job_id}"
