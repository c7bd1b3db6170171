"""The playback of a simulation: frames are kept as they are computed and shown at the pace that the watchers set."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from headgate.core.errors import InvalidInput
from headgate.wire.simulating import PlaybackIn, PlaybackOut

Frame = dict[str, Any]


class Player:
    """Where the playback of one simulation stands. Times of frames are whole numbers, whatever their unit is."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.begin = 0
        self.tick = 0.001
        """Seconds that a unit of the frames' time stands for."""
        self.playing = True
        self.speed = 0.0
        self._at = 0.0
        self._next = 0
        """The frame that comes next."""
        self._seen_at: float | None = None
        self._jumped = False
        self.moved = True
        """Whether something other than time has changed since the last look."""

    def start(self, begin: int, tick: float) -> None:
        """The simulation begins at that time."""
        self.begin, self.tick, self._at = begin, tick, float(begin)

    def control(self, asked: PlaybackIn) -> None:
        """Pause, go on, change the pace, step or jump."""
        if asked.seek is not None and asked.step is not None:
            raise InvalidInput("goes with step or seek, not with both", field="seek")
        if asked.speed is not None:
            self.speed = asked.speed
        if asked.playing is not None:
            self.playing = asked.playing
        if asked.seek is not None:
            self._jump(bisect_left(self.frames, self.begin + asked.seek / self.tick, key=_time))
            self._at = self.begin + asked.seek / self.tick
        if asked.step is not None:
            self.playing = False
            self._jump(self._next - 1 + asked.step)
        self.moved = True

    def _jump(self, place: int) -> None:
        """Show this frame next, whether or not the playback goes on."""
        self._next = min(max(0, place), max(0, len(self.frames) - 1))
        self._jumped = True

    def due(self, now: float) -> list[Frame]:
        """The frames to show at this time, in seconds of a clock that runs on."""
        passed, self._seen_at = (0.0 if self._seen_at is None else now - self._seen_at), now
        if self._jumped and self.frames:
            self._jumped = False
            return self._show(self._next + 1)
        if not self.playing:
            return []
        if not self.speed:
            return self._show(len(self.frames))
        last = self.frames[-1]["at"] if self.frames else self.begin
        self._at = min(self._at + passed * self.speed / self.tick, float(max(last, self.begin)))
        return self._show(bisect_right(self.frames, self._at, key=_time))

    def _show(self, end: int) -> list[Frame]:
        shown = self.frames[self._next : end]
        if shown:
            self._next = end
            self._at = max(self._at, float(shown[-1]["at"])) if self.speed else float(shown[-1]["at"])
        return shown

    @property
    def last(self) -> Frame | None:
        """The frame that was shown last."""
        return self.frames[self._next - 1] if self._next else None

    def status(self) -> PlaybackOut:
        """Where it stands."""
        shown = self.last
        at = self._at if self.speed or shown is None else float(shown["at"])
        return PlaybackOut(
            self.playing, self.speed, (at - self.begin) * self.tick, 0 if shown is None else shown["number"]
        )


def _time(frame: Frame) -> float:
    return float(frame["at"])
