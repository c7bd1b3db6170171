"""Events of load and of the policy."""

from __future__ import annotations

from headgate.core import events as e
from headgate.core.capacity import Sample
from headgate.core.state import PolicyWait, State


def load_sampled(state: State, event: e.LoadSampled) -> None:
    sample = Sample(event.at, event.signals, event.ratings, event.reasons)
    state.load.hear(event.source, sample, state.settings)


def load_withdrawn(state: State, event: e.LoadWithdrawn) -> None:
    state.load.withdraw(event.source, state.settings)


def rating_changed(state: State, event: e.RatingChanged) -> None:
    state.load.take(event.at, event.rating, event.signals, event.reasons, blind=event.blind)


def capacity_changed(state: State, event: e.CapacityChanged) -> None:
    state.load.busy = event.busy
    state.load.usable = event.usable
    state.load.recalculated_at = event.at
    state.load.blind = event.blind
    state.room += 1


def policy_waited(state: State, event: e.PolicyWaited) -> None:
    until = None if event.retry_after is None else event.at + event.retry_after
    state.policy_wait = PolicyWait(event.at, event.reason, until)
