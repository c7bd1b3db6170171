"""Slots as rules of the core: what a few slots with staggered starts amount to as settings and as a policy."""

from __future__ import annotations

from headgate.core.actions import Action
from headgate.core.settings import Settings
from headgate.core.state import State


def slot_settings(slots: int, stagger: int = 0) -> Settings:
    """One unit a slot, first come first served, starts so many milliseconds apart; the machine is rated by its pool."""
    return Settings(total_units=slots, fixed_busy=0.0, stagger=stagger, ageing=0, preemption=False, retain_finished=100)


class OnRequest:
    """The policy of an engine that starts nothing by itself: whoever pulls proposes."""

    def propose(self, state: State, now: int) -> list[Action]:  # noqa: ARG002 - the shape of every policy
        """Nothing."""
        return []
