"""Starting, measuring and ending experiments on the policies of one engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from headgate.core.errors import InvalidInput
from headgate.policy.arms import ARMS, ExperimentingEngine
from headgate.policy.decisions import KIND, glance
from headgate.policy.errors import PolicyForbidden
from headgate.policy.experiments import Arm, Experiment, Experiments, Split
from headgate.policy.library import Documents, Library, Version
from headgate.policy.measuring import ExperimentReport, JobSpan, measure

DAY = 86_400_000
WINDOW = 600_000


class History(Documents, Protocol):
    """What is asked of the engine: documents, decisions and jobs."""

    def each_record(self, kind: str, since: int = 0) -> Iterator[bytes]:
        """Entries of a log, oldest first."""
        ...

    def each_job(self, since: int) -> Iterator[JobSpan]:
        """Jobs submitted from a time on, oldest first."""
        ...


class Trials:
    """Experiments on the live system."""

    def __init__(
        self, engine: History, deciding: ExperimentingEngine, library: Library, now: Callable[[], int]
    ) -> None:
        self._engine, self._deciding, self._library, self._now = engine, deciding, library, now
        self.experiments = Experiments(engine)

    def start(
        self, a: str | None, b: str | None, *, split: Split = "time", window: int = WINDOW, who: str = "", why: str = ""
    ) -> Experiment:
        """Let two versions decide (none: the platform policy). Both run before the first of them is asked."""
        if self._deciding.settings.mode == "platform":
            raise PolicyForbidden("in platform mode only the platform policy decides")
        versions: dict[Arm, Version | None] = {
            arm: None if name is None else self._library.get(name) for arm, name in zip(ARMS, (a, b), strict=True)
        }
        ids = [None if version is None else version.id for version in versions.values()]
        names = self._deciding.names(split)
        planned = self.experiments.plan(ids[0], ids[1], split, window, self._now(), names)
        planned = msgspec.structs.replace(planned, who=who, why=why)
        self._deciding.prepare_trial(planned, versions)
        return self.experiments.start(planned)

    def stop(
        self, experiment_id: str | None = None, *, keep: Arm | None = None, who: str = "", why: str = ""
    ) -> Experiment:
        """End an experiment; the active policy decides again, or the arm that is to be kept."""
        experiment = self.experiments.get(experiment_id)
        if keep is not None and not experiment.running:
            raise InvalidInput("the experiment has ended already: deploy the version instead", field="keep")
        if keep is not None:
            reason = why or f"arm {keep} of experiment {experiment.id}"
            self._library.move("active", experiment.version(keep), self._now(), who=who, why=reason)
        return self.experiments.stop(experiment, self._now(), why or "stopped")

    def end_running(self, why: str) -> None:
        """End whatever runs."""
        running = self.experiments.running()
        if running is not None:
            self.experiments.stop(running, self._now(), why)

    def report(self, experiment_id: str | None = None) -> ExperimentReport:
        """What it shows so far."""
        experiment = self.experiments.get(experiment_id)
        served = self._served(experiment) if experiment.split == "pool" else {}
        # Jobs that were there before it began used capacity while it ran.
        jobs = self._engine.each_job(experiment.started_at - DAY)
        return measure(experiment, jobs, self._now(), self._deciding.total_units, served)

    def _served(self, experiment: Experiment) -> dict[str, Arm]:
        """Who started which job: every decision is marked with its arm."""
        found: dict[str, Arm] = {}
        labels: dict[str, Arm] = {experiment.label(arm): arm for arm in ARMS}
        for body in self._engine.each_record(KIND, experiment.started_at):
            decision = glance(body)
            arm = labels.get(decision.arm)
            if arm is not None:
                found |= {str(a["job_id"]): arm for a in decision.actions if a.get("action") == "dispatch"}
        return found
