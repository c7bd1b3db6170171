"""Slots as rules of the core: what a few slots with staggered starts amount to as settings and as a policy."""

from __future__ import annotations

from headgate.core.actions import Action
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.core.state import State

_KEEP = 3_600_000
"""Milliseconds for which what has ended is remembered."""


def slot_settings(slots: int, stagger: int = 0) -> Settings:
    """One unit a slot, first come first served, starts so many milliseconds apart; the machine is rated by its pool."""
    return Settings(
        total_units=slots,
        fixed_busy=0.0,
        stagger=stagger,
        ageing=0,
        preemption=False,
        retain_finished=100,
        retention=Retention(jobs=_KEEP, events=_KEEP),
    )


class OnRequest:
    """The policy of an engine that starts nothing by itself: whoever pulls proposes."""

    def propose(self, state: State, now: int) -> list[Action]:  # noqa: ARG002 - the shape of every policy
        """Nothing."""
        return []
