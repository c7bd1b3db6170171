"""What a pool agent does while its server is away: pauses that grow, an end that is said, an error that is one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headgate.bootstrap.pooling import LONGEST_RETRY, Beat, Reporting
from headgate.client.errors import ConnectionFailed
from headgate.core import commands as c
from headgate.core.errors import InvalidInput
from headgate.load import PoolAgent
from headgate.testing import ManualClock


class Idle:
    name = "idle"
    signals = ("cpu",)

    def read(self) -> dict[str, float]:
        return {"cpu": 0.1}


class Half:
    """Chance that adds nothing and takes nothing away."""

    def uniform(self) -> float:
        return 0.5

    def bits(self, count: int) -> int:
        return count


class Line:
    """A server at the other end, up or down as the script says; it notes what it heard."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.heard: list[Any] = []
        self.wanted: tuple[Any, ...] = ()

    def do(self, command: c.Command[Any]) -> Any:
        trouble = self.script.pop(0) if self.script else None
        if trouble is not None:
            raise trouble
        assert isinstance(command, c.ReportPool)
        self.heard.append(command.report)


class Told(threading.Event):
    """Told to stop after so many pauses; nobody really waits."""

    def __init__(self, pauses: int) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._most = pauses

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        if len(self.pauses) > self._most:
            self.set()
        return self.is_set()


def report(line: Line, pauses: int) -> tuple[Told, list[Beat]]:
    beats: list[Beat] = []
    agent = PoolAgent("lab", [Idle()], ManualClock())
    told = Told(pauses)
    try:
        Reporting(agent, line, 5_000, Half(), beats.append).run(told)  # type: ignore[arg-type]
    finally:
        agent.stop()
    return told, beats


AWAY = ConnectionFailed("away")


def test_pauses_grow_while_the_server_is_away_and_are_the_beat_again_afterwards() -> None:
    told, beats = report(Line(None, *[AWAY] * 8, None), 10)
    warm_up, *pauses = told.pauses
    assert warm_up == 0.25
    assert pauses == [5.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_RETRY, LONGEST_RETRY, 5.0]
    assert [beat.failure is None for beat in beats[:10]] == [True, *[False] * 8, True]


def test_the_last_word_is_that_nobody_watches_any_more() -> None:
    line = Line()
    report(line, 2)
    last = line.heard[-1]
    assert (last.busy, last.reasons) == (10.0, ("its pool agent has left",))
    assert [each.busy for each in line.heard[:-1]] == [0.0, 0.0]


def test_a_goodbye_that_is_not_heard_is_told_and_is_no_error() -> None:
    _, beats = report(Line(None, AWAY), 1)
    assert beats[-1].failure is AWAY


def test_who_was_never_heard_says_no_goodbye() -> None:
    line = Line(*[AWAY] * 5)
    report(line, 3)
    assert line.heard == []


def test_a_first_report_that_is_refused_is_an_error_and_a_later_one_is_tried_again() -> None:
    refused = InvalidInput("is not valid", field="units", status=400)
    with pytest.raises(InvalidInput, match="units"):
        report(Line(AWAY, refused), 5)
    _, beats = report(Line(None, refused, None), 3)
    assert [beat.failure for beat in beats[:3]] == [None, refused, None]
