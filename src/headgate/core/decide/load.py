"""Samples of load become a rating; a rating becomes capacity."""

from __future__ import annotations

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.capacity import FULL, kept, rate_sample, usable_units
from headgate.core.decide.turn import Turn
from headgate.core.errors import InvalidInput
from headgate.core.week import PROFILE, weight_at


def sample(turn: Turn, command: c.SampleLoad) -> float:
    """Take in a sample. Values that cannot be believed are kept and rated 10."""
    if not command.source:
        raise InvalidInput("must not be empty", field="source")
    signals = {name: kept(value) for name, value in command.signals.items()}
    ratings, reasons = rate_sample(command.signals, turn.state.settings, command.reasons)
    turn.emit(e.LoadSampled(turn.now, command.source, signals, ratings, reasons))
    return rate(turn)


def withdraw(turn: Turn, command: c.WithdrawLoad) -> float:
    """Forget a source; one that never spoke is forgotten already."""
    if command.source in turn.state.load.samples:
        turn.emit(e.LoadWithdrawn(turn.now, command.source))
    return rate(turn)


def rate(turn: Turn) -> float:
    """Rate the load anew and recalculate capacity where that is due."""
    load, settings = turn.state.load, turn.state.settings
    rating, signals, reasons = load.rate(turn.now, settings)
    blind = bool(load.stale(turn.now, settings))
    changed = rating != load.rating or signals != load.signals or reasons != load.reasons or load.rated_at is None
    # As long as a signal holds the rating up, the moment from which it falls moves along.
    if changed or 0 < rating <= max(signals.values(), default=0.0):
        turn.emit(e.RatingChanged(turn.now, rating, signals, reasons, blind))
    recalculate(turn)
    return rating


def recalculate(turn: Turn) -> None:
    """Capacity follows the rating every `recalculate` milliseconds, and at once where the rating rises past it.

    A gate that was shut for want of a word opens with the word: that was no load which has to prove that it is gone.
    """
    load, settings = turn.state.load, turn.state.settings
    blind = bool(load.stale(turn.now, settings))
    rating = FULL if blind else load.rating
    if load.recalculated_at is None:
        cause = "first"
    elif rating > load.busy:
        cause = "spike"
    elif load.blind and not blind:
        cause = "heard"
    elif turn.now - load.recalculated_at >= settings.recalculate:
        cause = "schedule"
    else:
        return
    weight = weight_at(turn.now, settings.time_of_day, turn.state.documents.get(PROFILE))
    usable = usable_units(rating, settings, weight)
    turn.emit(e.CapacityChanged(turn.now, rating, usable, cause, blind))  # type: ignore[arg-type]
