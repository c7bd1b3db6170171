"""Lua policies in a simulation: the same mirror, the same questions, the same check of the answers as live.

A policy that comes with Headgate runs in this process; anybody else's runs in the policy host's locked-down child,
with a limit on every decision. The budget in a question is a limit of real time and therefore out of the way here:
two runs must not differ because one machine was slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from headgate.core.actions import Action
from headgate.core.commands import Command, Scheduled
from headgate.core.errors import HeadgateError
from headgate.core.events import Event
from headgate.core.ordering import Note
from headgate.core.state import State
from headgate.policy import answers
from headgate.policy.deciding import to_core
from headgate.policy.deltas import Answer, Delta, Question, Reset, decode_answer, encode
from headgate.policy.host import PolicyHost
from headgate.policy.mirroring import Mirroring
from headgate.policy.runtime import PLATFORM, USER, PolicyRefused, Runtime
from headgate.policy.verdict import HostSettings

_BUDGET_MS = 1 << 30
_MOST_ANSWERS = 256
_LATEST = 253_402_300_799_000
"""The end of the year 9999: beyond it there is no hour of the day to tell."""


class PolicyFailed(HeadgateError):
    """A policy of our own failed: the simulation would not be what it says it is."""


class Asker(Protocol):
    """Who is told deltas and asked questions."""

    def ask(self, deltas: list[Delta], question: Question) -> list[answers.Action]:
        """Tell what changed and return the checked answer."""
        ...

    def stop(self) -> None:
        """End what was started."""
        ...


class InProcess:
    """A trusted policy in a runtime of this process."""

    def __init__(self, source: str | None) -> None:
        self._runtime = Runtime()
        self._who = PLATFORM
        self.took_us = 0
        self.failures: Counter[str] = Counter()
        self.first_failure = ""
        self._known = answers.Known()
        if source is not None:
            self._runtime.load(source)
            self._who = USER

    def ask(self, deltas: list[Delta], question: Question) -> list[answers.Action]:
        """One frame out, one answer back."""
        self._known.note(deltas)
        answer: Answer = decode_answer(self._runtime.feed(encode([*deltas, question]), self._who))
        self.took_us += answer.took_us
        if answer.error is not None:
            raise PolicyFailed(f"the policy failed: {answer.error.message}\n{answer.error.traceback}")
        return answers.check(answer.actions, self._known)

    def stop(self) -> None:
        """Nothing runs besides this process."""


class Hosted:
    """Somebody's policy in the policy host. Where it fails, the platform policy decides, as live."""

    def __init__(self, source: str, settings: HostSettings | None = None) -> None:
        self._host = PolicyHost(settings or HostSettings(limit_ms=2_000, platform_limit_ms=10_000))
        self._host.start()
        try:
            self._host.load(source, "simulated")
        except PolicyRefused:
            self._host.stop()
            raise
        self.took_us = 0
        self.failures: Counter[str] = Counter()
        self.first_failure = ""

    def ask(self, deltas: list[Delta], question: Question) -> list[answers.Action]:
        """The verdict's actions; failures are counted."""
        self._host.feed(deltas)
        self._host.wait_ready()
        verdict = self._host.ask(question)
        self.took_us += verdict.answer.took_us
        if verdict.failure is not None:
            self.failures[verdict.failure.value] += 1
            self.first_failure = self.first_failure or verdict.message
        return verdict.actions

    def stop(self) -> None:
        """End the processes."""
        self._host.stop()


class LuaDecider:
    """A Lua policy as the engine sees it."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.decisions = 0
        self._mirroring = Mirroring()
        self._fresh = True

    def observe(self, events: Sequence[Event], state: State) -> None:
        """See events as they happen."""
        self._mirroring.observe(list(events), state)

    def propose(self, state: State, now: int) -> list[Action]:
        """Ask."""
        mirroring = self._mirroring
        told = [Reset(), *mirroring.everything(state, now)] if self._fresh else mirroring.news(state, now)
        self._fresh = False
        self.decisions += 1
        local = datetime.fromtimestamp(min(now, _LATEST) / 1000, UTC)
        question = Question(now, self.decisions, _MOST_ANSWERS, _BUDGET_MS, local.hour, local.weekday())
        return [to_core(action) for action in self.asker.ask(told, question)]

    def disposed(self, _scheduled: Scheduled, _now: int) -> list[Note | Command[Any]]:
        """The simulation keeps its own record."""
        return []
