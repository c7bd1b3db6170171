"""Experiments: two policies decide on the live system, split by windows of time, by tenant or by pool.

Never by job: the jobs of both arms would share their capacity, and each arm would be measured by the other's doing.
Who decides is a function of the experiment's document alone, so a restart changes nothing.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from headgate.core.commands import PutDocument
from headgate.core.errors import Conflict, DocumentMoved, InvalidInput, NotFound
from headgate.policy.library import Documents

EXPERIMENTS = "policy-experiment"
Arm = Literal["a", "b"]
Split = Literal["time", "tenant", "pool"]
SHORTEST, LONGEST = 1_000, 7 * 86_400_000
_encode = msgspec.msgpack.Encoder().encode


class ExperimentNotFound(NotFound):
    """There is no such experiment."""


class ExperimentRunning(Conflict):
    """An experiment is running already."""


class Experiment(msgspec.Struct, frozen=True):
    """Two versions (none: the platform policy) and how the system is split between them."""

    id: str
    a: str | None
    b: str | None
    split: Split
    window: int
    """Milliseconds: how long an arm decides at a time; under other splits, the blocks that are compared."""
    started_at: int
    assigned: dict[str, Arm]
    """Tenants or pools as they were when it began, half of them to each arm."""
    who: str = ""
    why: str = ""
    ended_at: int | None = None
    ended_why: str = ""

    @property
    def running(self) -> bool:
        """Whether its arms decide."""
        return self.ended_at is None

    def version(self, arm: Arm) -> str | None:
        """The version of an arm."""
        return self.a if arm == "a" else self.b

    def arm_at(self, now: int) -> Arm:
        """Who decides at a time: windows come in pairs, and chance decides for each pair which arm is first."""
        number = max(0, now - self.started_at) // self.window
        flipped = _chance(self.id, str(number // 2)) ^ (number % 2)
        return "b" if flipped else "a"

    def arm_of(self, name: str) -> Arm:
        """Who decides for a tenant or a pool; one that came later is assigned by its name."""
        known = self.assigned.get(name)
        return known if known is not None else "b" if _chance(self.id, name) else "a"

    def label(self, arm: Arm) -> str:
        """What decisions of an arm are marked with."""
        return f"{self.id}/{arm}"


def _chance(*parts: str) -> int:
    return hashlib.sha256("/".join(parts).encode()).digest()[0] & 1


def split_evenly(experiment_id: str, names: list[str]) -> dict[str, Arm]:
    """Half to each arm, in an order that only the experiment's name decides."""
    shuffled = sorted(names, key=lambda name: hashlib.sha256(f"{experiment_id}/{name}".encode()).digest())
    return {name: "b" if place % 2 else "a" for place, name in enumerate(shuffled)}


def read_experiment(body: bytes) -> Experiment:
    """An experiment from its document."""
    return msgspec.msgpack.decode(body, type=Experiment)


def running_in(documents: dict[tuple[str, str], bytes]) -> Experiment | None:
    """The experiment that runs, if one does."""
    found = (read_experiment(body) for (kind, _), body in documents.items() if kind == EXPERIMENTS)
    return next((experiment for experiment in found if experiment.running), None)


def ended(experiment: Experiment, at: int, why: str) -> PutDocument:
    """The command that ends an experiment."""
    after = msgspec.structs.replace(experiment, ended_at=at, ended_why=why)
    return PutDocument(EXPERIMENTS, experiment.id, _encode(after))


class Experiments:
    """All experiments, kept in an engine's documents."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def all(self) -> list[Experiment]:
        """Newest first."""
        found = [read_experiment(body) for body in self._documents.documents(EXPERIMENTS).values()]
        return sorted(found, key=lambda experiment: (experiment.started_at, experiment.id), reverse=True)

    def get(self, experiment_id: str | None = None) -> Experiment:
        """One by its id; without one the one that runs, or ran last."""
        found = self.all()
        for experiment in found:
            if experiment_id is None or experiment.id == experiment_id:
                return experiment
        raise ExperimentNotFound(f"there is no experiment {experiment_id or 'yet'}", experiment_id=experiment_id)

    def running(self) -> Experiment | None:
        """The one that runs."""
        return next((experiment for experiment in self.all() if experiment.running), None)

    def plan(self, a: str | None, b: str | None, split: Split, window: int, at: int, names: list[str]) -> Experiment:
        """An experiment that may start now: nothing is kept yet."""
        if a == b:
            raise InvalidInput("are the same policy", field="b")
        if not SHORTEST <= window <= LONGEST:
            raise InvalidInput("must be between a second and a week", field="window")
        if split != "time" and len(names) < 2:
            raise InvalidInput(f"needs at least two {split}s, and there are {len(names)}", field="split")
        running = self.running()
        if running is not None:
            raise ExperimentRunning(f"experiment {running.id} is running: stop it first", experiment_id=running.id)
        number = f"x{at:x}-{len(self.all()) + 1}"
        assigned = {} if split == "time" else split_evenly(number, names)
        return Experiment(number, a, b, split, window, at, assigned)

    def start(self, experiment: Experiment) -> Experiment:
        """From here on its arms decide."""
        self._documents.do(PutDocument(EXPERIMENTS, experiment.id, _encode(experiment), None))
        return experiment

    def stop(self, experiment: Experiment, at: int, why: str) -> Experiment:
        """From here on the active policy decides again."""
        if not experiment.running:
            return experiment
        command = msgspec.structs.replace(ended(experiment, at, why), expect=_encode(experiment))
        try:
            self._documents.do(command)
        except DocumentMoved:  # it ended by itself meanwhile
            return self.get(experiment.id)
        return self.get(experiment.id)
