"""One decision of a simulation, lifted out: all that its policy had been told until then, and the question."""

from __future__ import annotations

from pathlib import Path

from headgate.core.errors import InvalidInput
from headgate.policy import answers
from headgate.policy.deltas import Delta, Question
from headgate.sim.cluster import Cluster
from headgate.sim.lua import Asker, LuaDecider
from headgate.sim.policies import open_policy
from headgate.sim.running import run_open
from headgate.sim.workloads.model import Workload


class _Reached(Exception):
    """The decision that was asked for comes now."""


class _Until:
    """Passes everything on, and stops the simulation before one decision is made."""

    def __init__(self, asker: Asker, number: int) -> None:
        self._asker = asker
        self._number = number
        self.asked = 0
        self.told: list[Delta] = []
        self.question = Question(0)

    def ask(self, deltas: list[Delta], question: Question) -> list[answers.Action]:
        """Ask on, or stop."""
        self.told += deltas
        self.asked += 1
        if self.asked == self._number:
            self.question = question
            raise _Reached
        return self._asker.ask(deltas, question)

    def stop(self) -> None:
        """End what was started."""
        self._asker.stop()


def decision_of(
    workload: Workload, policy: str | Path, cluster: Cluster, number: int, *, seed: int = 0
) -> tuple[list[Delta], Question]:
    """What the policy was told before its decision of this number (from 1 on), and the question."""
    with open_policy(policy) as opened:
        decider = opened.policy
        if not isinstance(decider, LuaDecider):
            raise InvalidInput(f"{policy} is not a Lua or YAML policy", field="policy")
        until = _Until(decider.asker, number)
        decider.asker = until
        try:
            run_open(workload, opened, cluster, seed=seed, keep=False)
        except _Reached:
            return until.told, until.question
    raise InvalidInput(f"the simulation makes {until.asked} decisions, there is no number {number}", field="number")
