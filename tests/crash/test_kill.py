"""kill -9 of a real engine: nothing that was acknowledged is lost, and no key makes two jobs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headgate.engine.failpoints import FAILPOINTS
from tests.crash.at_rest import Told, check_at_rest
from tests.crash.child import CLIENTS
from tests.crash.conftest import Run

RANDOM = [10, pytest.param(100, marks=pytest.mark.slow)]
"""Kills of each kind: together 20 in the normal suite and 200 in the longer one."""
EACH = [2, pytest.param(20, marks=pytest.mark.slow)]


def live_until_killed(run: Run, path: Path, told: Told, lines: int | None, failpoints: str = "") -> int:
    """Let clients go on from what they were told; kill them after so many lines, or let a failpoint do it."""
    numbers = [told.next_number(f"w{at}") for at in range(CLIENTS)]
    child = run("clients", path, *numbers, failpoints=failpoints)
    heard = [child.line() for _ in range(lines or 0)]
    heard += child.kill() if lines is not None else child.rest()
    told.take(heard)
    return len(heard)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", RANDOM)
def test_kill_9_at_random_moments_loses_nothing_acknowledged(run: Run, path: Path, kills: int) -> None:
    chance = random.Random(11)
    told = Told()
    for _ in range(kills):
        live_until_killed(run, path, told, chance.randint(1, 150))
        check_at_rest(path, told)
    assert len(told.submitted) > 15 * kills
    assert len(told.completed) > 10 * kills


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", EACH)
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_kill_9_at_a_failpoint_loses_nothing_acknowledged(run: Run, path: Path, failpoint: str, kills: int) -> None:
    chance = random.Random(failpoint)
    told = Told()
    for _ in range(kills):
        passages = 1 if failpoint == "recover.after" else chance.randint(3, 80)
        live_until_killed(run, path, told, None, f"{failpoint}=kill:{passages}")
        check_at_rest(path, told)
    live_until_killed(run, path, told, 50)
    check_at_rest(path, told)


@pytest.mark.parametrize("failpoint", ["commit.before", "commit.written"])
def test_killed_before_the_commit_there_is_no_job_and_nobody_was_told(run: Run, path: Path, failpoint: str) -> None:
    told = Told()
    told.take(run("dies_at", path, failpoint).rest())
    assert list(told.submitted) == ["kept"]
    assert [view.job.key for view in check_at_rest(path, told)] == ["kept"]


@pytest.mark.parametrize("failpoint", ["commit.after", "reply.after"])
def test_killed_between_commit_and_reply_a_retry_with_the_same_key_finds_the_one_job(
    run: Run, path: Path, failpoint: str
) -> None:
    told = Told()
    first = run("dies_at", path, failpoint)
    told.take(first.rest())
    assert list(told.submitted) == ["kept"]
    assert [view.job.key for view in check_at_rest(path, told)] == ["kept", "last"]
    again = run("dies_at", path, "never")
    told.take(again.rest())
    assert told.submitted["last"] == f"last.{first.pid}"
    assert told.submitted["kept"] == f"kept.{first.pid}"
    assert len(check_at_rest(path, told)) == 2
