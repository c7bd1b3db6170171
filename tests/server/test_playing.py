"""The playback of a simulation: paced by a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.errors import InvalidInput
from headgate.server.playing import Player
from headgate.wire.simulating import PlaybackIn


def player(count: int = 10) -> Player:
    """Frames a minute apart, in milliseconds."""
    made = Player()
    made.start(1_000_000, 0.001)
    made.frames = [{"number": n + 1, "at": 1_000_000 + (n + 1) * 60_000, "seen": []} for n in range(count)]
    return made


def shown(made: Player, now: float) -> list[int]:
    return [frame["number"] for frame in made.due(now)]


def test_without_a_speed_frames_are_shown_as_they_come() -> None:
    made = player(2)
    assert shown(made, 0.0) == [1, 2]
    assert shown(made, 0.1) == []
    made.frames.append({"number": 3, "at": 1_180_000, "seen": []})
    assert shown(made, 0.2) == [3]
    assert made.status().at == 180


def test_a_speed_is_simulated_seconds_in_a_second() -> None:
    made = player()
    made.control(PlaybackIn(speed=60))
    assert shown(made, 0.0) == []
    assert shown(made, 0.5) == []
    assert shown(made, 1.0) == [1]
    assert shown(made, 3.5) == [2, 3]
    made.control(PlaybackIn(speed=120))
    assert shown(made, 4.5) == [4, 5]


def test_a_pause_stops_the_clock_and_steps_go_both_ways() -> None:
    made = player()
    made.control(PlaybackIn(speed=60))
    shown(made, 0.0)
    assert shown(made, 2.0) == [1, 2]
    made.control(PlaybackIn(playing=False))
    assert shown(made, 100.0) == []
    made.control(PlaybackIn(step=2))
    assert shown(made, 101.0) == [4]
    made.control(PlaybackIn(step=-3))
    assert shown(made, 102.0) == [1]
    assert shown(made, 103.0) == []


def test_a_jump_shows_the_frame_of_that_time_and_goes_on_from_there() -> None:
    made = player()
    made.control(PlaybackIn(speed=60, seek=299))
    assert shown(made, 0.0) == [5]
    assert shown(made, 1.0) == [6]
    made.control(PlaybackIn(seek=0))
    assert shown(made, 2.0) == [1]
    made.control(PlaybackIn(seek=10_000))
    assert shown(made, 3.0) == [10], "what is not computed yet cannot be shown"


def test_a_simulation_that_is_slower_than_its_playback_is_waited_for() -> None:
    made = player(2)
    made.control(PlaybackIn(speed=60))
    shown(made, 0.0)
    assert shown(made, 1_000.0) == [1, 2]
    made.frames += player(4).frames[2:]
    assert shown(made, 1_000.5) == []
    assert shown(made, 1_001.5) == [3]


@pytest.mark.parametrize("asked", [{"step": 1, "seek": 1.0}])
def test_what_contradicts_itself_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        player().control(PlaybackIn(**asked))
