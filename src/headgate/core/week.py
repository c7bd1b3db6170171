"""Time of day: what share of the capacity an hour of the week leaves. Learned from the load, adjustable by hand.

Each hour of the week keeps one number, the mean rating that others cause in it. Pure; the profile is a document of the
engine's store, so that it survives a restart and can be looked at.
"""

from __future__ import annotations

import msgspec

from headgate.core.settings import TimeOfDay, days_of

HOURS = 168
HOUR = 3_600_000
PROFILE = ("profile", "week")
"""Kind and id of the document that holds the profile."""
_THURSDAY = 72
"""The hour of a week that begins on Monday at which 1970 began."""
_WEEKS = 4
"""A learned hour forgets: the mean of about this many weeks counts."""


class Week(msgspec.Struct, frozen=True):
    """The mean rating of each hour from Monday 00:00 on; none where nothing was learned yet."""

    busy: tuple[float | None, ...] = (None,) * HOURS


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Week).decode


def encode_week(week: Week) -> bytes:
    """A profile as the document's body."""
    return _encode(week)


def decode_week(body: bytes | None) -> Week:
    """A profile from the document's body; what cannot be read counts as nothing learned."""
    if body is None:
        return Week()
    try:
        week = _decode(body)
    except msgspec.MsgspecError:
        return Week()
    return week if len(week.busy) == HOURS else Week()


def hour_of_week(now: int, utc_offset: int = 0) -> int:
    """The hour since Monday 00:00 of the place."""
    return ((now + utc_offset) // HOUR + _THURSDAY) % HOURS


def learned(week: Week, hour: int, mean: float) -> Week:
    """The profile after an hour whose mean rating was `mean`."""
    before = week.busy[hour]
    after = mean if before is None else before + (mean - before) / _WEEKS
    return Week((*week.busy[:hour], round(after, 4), *week.busy[hour + 1 :]))


def weight_at(now: int, setting: TimeOfDay | None, body: bytes | None) -> float:
    """The share of the capacity that is usable at a time, whatever the present rating."""
    if setting is None:
        return 1.0
    hour = hour_of_week(now, setting.utc_offset)
    by_hand = window_weight(setting, hour)
    if by_hand is not None:
        return by_hand
    busy = decode_week(body).busy[hour] if setting.learn else None
    return 1.0 if busy is None else min(1.0, max(setting.least, 1.0 - busy / 10.0))


def window_weight(setting: TimeOfDay, hour: int) -> float | None:
    """What was set by hand for an hour of the week; the last window that covers it wins."""
    found = None
    for window in setting.windows:
        length = (window.end - window.start) % 24 or 24
        begins = (day * 24 + window.start for day in days_of(window.days))
        if any((hour - begin) % HOURS < length for begin in begins):
            found = window.weight
    return found


class WeekLearner:
    """Gathers the ratings of an hour and turns them into the profile when the hour is over."""

    def __init__(self, week: Week | None = None, utc_offset: int = 0) -> None:
        self.week = week or Week()
        self._utc_offset = utc_offset
        self._hour: int | None = None
        self._sum = 0.0
        self._count = 0

    def note(self, now: int, rating: float, held: float = 0.0) -> bytes | None:
        """Take in a rating and the share of units leased out; return the new profile where an hour has ended.

        What our own leases cause is taken off: otherwise a night of our own work would look like a busy night.
        """
        hour, done = hour_of_week(now, self._utc_offset), None
        if self._hour is not None and hour != self._hour and self._count:
            self.week = learned(self.week, self._hour, self._sum / self._count)
            self._sum, self._count, done = 0.0, 0, encode_week(self.week)
        self._hour = hour
        self._sum += max(0.0, rating - 10.0 * min(1.0, max(0.0, held)))
        self._count += 1
        return done
