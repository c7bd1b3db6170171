"""The policy engine with experiments: while one runs, each arm decides in a lane of its own, for its share alone.

A lane is a policy engine that is pinned to one version and sees, where the split is by tenant or by pool, only what
belongs to its arm. A lane whose policy has to be taken out ends the experiment: the active policy decides again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from headgate.core import actions as core
from headgate.core.commands import Command, Scheduled
from headgate.core.events import DocumentSet, Event
from headgate.core.ordering import FirstFit, Note
from headgate.core.state import State
from headgate.policy import deltas as d
from headgate.policy.deciding import PolicyEngine, PolicySettings, PolicyStatus
from headgate.policy.decisions import DecisionLog
from headgate.policy.errors import InvalidPolicy
from headgate.policy.experiments import EXPERIMENTS, Arm, Experiment, ended, running_in
from headgate.policy.library import Tripped, Version, read_pointer, trip
from headgate.policy.mirroring import Mirroring

ARMS: tuple[Arm, Arm] = ("a", "b")


class _Share:
    """What belongs to one arm."""

    def __init__(self, experiment: Experiment, arm: Arm) -> None:
        self._experiment, self._arm = experiment, arm
        self.split = experiment.split

    def __contains__(self, name: str) -> bool:
        return self._experiment.arm_of(name) == self._arm

    def holds(self, action: core.Action, state: State) -> bool:
        """Whether an action is the business of this arm."""
        if self.split == "time" or not isinstance(action, core.Dispatch):
            return True
        if self.split == "tenant":
            job = state.jobs.get(action.job_id)
            return job is not None and job.kind.of.tenant in self
        worker = state.workers.get(action.worker_id or "")
        return worker is None or worker.spec.pool in self


class PartialMirror(Mirroring):
    """Tells a policy of its arm's tenants' jobs alone, or of its pools' workers."""

    def __init__(self, share: _Share) -> None:
        super().__init__()
        self._share = share
        self._hidden: set[str] = set()

    def everything(self, state: State, now: int) -> list[d.Delta]:
        """The whole state of this arm."""
        self._hidden.clear()
        return list(self._own(super().everything(state, now)))

    def news(self, state: State, now: int) -> list[d.Delta]:
        """What has changed for this arm."""
        return list(self._own(super().news(state, now)))

    def _own(self, told: Iterable[d.Delta]) -> Iterable[d.Delta]:
        return (delta for delta in told if self._mine(delta))

    def _mine(self, delta: d.Delta) -> bool:
        match delta:
            case d.JobAdded() if self._share.split == "tenant":
                return self._seen(delta.id, delta.tenant)
            case d.WorkerSet() if self._share.split == "pool":
                return self._seen(delta.id, delta.pool_id)
            case d.PoolSet() | d.PoolRemoved() if self._share.split == "pool":
                return delta.id in self._share
            case d.JobRemoved() | d.WorkerRemoved():
                hidden = delta.id in self._hidden
                self._hidden.discard(delta.id)
                return not hidden
            case d.WorkerChanged():
                return delta.id not in self._hidden
            case d.RunningSet() | d.RunningRemoved():
                return delta.worker_id not in self._hidden
        return True

    def _seen(self, id_: str, owner: str) -> bool:
        if owner in self._share:
            self._hidden.discard(id_)
            return True
        self._hidden.add(id_)
        return False


class _Numbers(DecisionLog):
    """Records of one lane; names of decisions are given out by the log that all lanes share."""

    def __init__(self, shared: DecisionLog) -> None:
        super().__init__()
        self._shared = shared

    def next_id(self, now: int) -> str:
        return self._shared.next_id(now)


class _OwnFit(FirstFit):
    """What could run of an arm's share: nobody starves what is not his."""

    one_by_one = True

    def __init__(self, share: _Share) -> None:
        self._share = share

    def propose(self, state: State, now: int) -> list[core.Action]:
        return [action for action in super().propose(state, now) if self._share.holds(action, state)]


class Lane(PolicyEngine):
    """One arm."""

    def __init__(
        self, settings: PolicySettings, experiment: Experiment, arm: Arm, version: Version | None, log: DecisionLog
    ) -> None:
        super().__init__(settings)
        self.arm = experiment.label(arm)
        self._experiment = experiment
        self._pinned = version
        self._share = _Share(experiment, arm)
        self._log = _Numbers(log)
        self._native = _OwnFit(self._share)
        if experiment.split != "time":
            self._mirroring = PartialMirror(self._share)

    def begin(self) -> None:
        """Start its processes."""
        with self._lock:
            if self._host is None:
                self._put_in_charge(self._pinned)

    def refresh(self) -> None:
        """It has not been told what happened meanwhile."""
        self._fresh = True

    def _follow_pointer(self, state: State) -> None:  # noqa: ARG002 - no pointer moves a lane
        self.begin()

    def own(self, actions: list[core.Action], state: State) -> list[core.Action]:
        """Its answer without what is the other arm's business."""
        return [action for action in actions if self._share.holds(action, state)]

    def _take_out(self, tripped: Tripped) -> list[Command[Any]]:
        """End the experiment. Where the policy is the active one too, the platform policy decides from here on."""
        why = f"arm {self.arm[-1]} ({tripped.version}) was taken out: {tripped.kind}"
        commands: list[Command[Any]] = [ended(self._experiment, tripped.at, why)]
        if read_pointer(self._pointer_body()).deciding == tripped.version:
            commands.append(trip(self._pointer_body(), tripped))
        return commands


class ExperimentingEngine(PolicyEngine):
    """Decides cycles by policy, and by the arms of an experiment while one runs."""

    def __init__(self, settings: PolicySettings | None = None) -> None:
        super().__init__(settings)
        self.experiment: Experiment | None = None
        self._lanes: dict[Arm, Lane] = {}
        self._ready_lanes: tuple[str, dict[Arm, Lane]] | None = None
        self._trial_moved = True
        self._last_arm: Arm | None = None
        self._turn = 0
        self._answered: list[tuple[Lane, list[core.Action]]] = []

    # -- life ---------------------------------------------------------------------------------------------------

    def prepare_trial(self, experiment: Experiment, versions: dict[Arm, Version | None]) -> None:
        """Start both arms in processes of their own before the experiment begins; raises what does not load."""
        lanes = self._make_lanes(experiment, versions)
        for arm, lane in lanes.items():
            lane.begin()
            if versions[arm] is not None and lane.problem:
                _stop(lanes)
                raise InvalidPolicy(lane.problem, field=arm)
        with self._lock:
            before, self._ready_lanes = self._ready_lanes, (experiment.id, lanes)
        if before is not None:
            _stop(before[1])

    def stop(self) -> None:
        """End every process."""
        super().stop()
        with self._lock:
            _stop(self._lanes)
            if self._ready_lanes is not None:
                _stop(self._ready_lanes[1])
            self._lanes, self._ready_lanes = {}, None

    def names(self, split: str) -> list[str]:
        """The tenants or pools that there are."""
        state = self._state
        if state is None or split == "time":
            return []
        return list(state.tenants if split == "tenant" else state.pools)

    @property
    def total_units(self) -> int:
        """The capacity that shares are reckoned from."""
        return 0 if self._state is None else self._state.settings.total_units

    def status(self) -> PolicyStatus:
        """One look at who decides; the decisions of both arms count."""
        with self._lock:
            found = super().status()
            experiment = self.experiment
            if experiment is None:
                return found
            lanes = [lane.status() for lane in self._lanes.values()]
            failures = Counter(found.failures)
            for lane in lanes:
                failures.update(lane.failures)
            whose = experiment.version(self._last_arm) if self._last_arm is not None else None
            deciding = f"experiment {experiment.id}" + (f" ({whose or 'platform'})" if self._last_arm else "")
            return msgspec.structs.replace(
                found, deciding=deciding, failures=dict(failures),
                decisions=found.decisions + sum(lane.decisions for lane in lanes),
                by_platform=found.by_platform + sum(lane.by_platform for lane in lanes),
                refusals=found.refusals + sum(lane.refusals for lane in lanes),
            )  # fmt: skip

    def _make_lanes(self, experiment: Experiment, versions: dict[Arm, Version | None]) -> dict[Arm, Lane]:
        return {arm: Lane(self.settings, experiment, arm, versions[arm], self._log) for arm in ARMS}

    def _follow_trial(self, state: State) -> None:
        """Between two cycles: an experiment has begun or ended."""
        if not self._trial_moved:
            return
        self._trial_moved = False
        experiment = running_in(state.documents)
        if experiment is not None and self.experiment is not None and experiment.id == self.experiment.id:
            return
        _stop(self._lanes)
        self.experiment, self._lanes, self._last_arm = experiment, {}, None
        if experiment is None:  # whoever is active now was told nothing meanwhile, and may be another
            self._fresh = self._pointer_moved = True
            return
        if self._ready_lanes is not None and self._ready_lanes[0] == experiment.id:
            self._lanes, self._ready_lanes = self._ready_lanes[1], None
            return
        versions: dict[Arm, Version | None] = {arm: self._version(state, experiment.version(arm)) for arm in ARMS}
        self._lanes = self._make_lanes(experiment, versions)

    # -- what the engine tells ----------------------------------------------------------------------------------

    def observe(self, events: list[Event], state: State) -> None:
        """See events as they happen; whoever does not decide now is told everything when its turn comes."""
        with self._lock:
            if state is not self._state or any(type(e) is DocumentSet and e.kind == EXPERIMENTS for e in events):
                self._trial_moved = True
            if self.experiment is None:
                super().observe(events, state)
                return
            self._state = state
            for lane in self._at_work():
                lane.observe(events, state)

    def _at_work(self) -> list[Lane]:
        if self.experiment is None or self.experiment.split != "time":
            return list(self._lanes.values())
        return [] if self._last_arm is None else [self._lanes[self._last_arm]]

    def _lanes_to_ask(self, state: State, now: int) -> list[Lane]:
        """The arm whose time it is, or both, each of them first in turn; none where no experiment runs."""
        with self._lock:
            self._state, self._now = state, now
            self._follow_trial(state)
            experiment = self.experiment
            if experiment is None:
                return []
            if experiment.split == "time":
                arm = experiment.arm_at(now)
                if arm != self._last_arm:
                    self._last_arm = arm
                    self._lanes[arm].refresh()
                return [self._lanes[arm]]
            self._turn ^= 1
            return [self._lanes[arm] for arm in (ARMS if self._turn else ARMS[::-1])]

    def propose(self, state: State, now: int) -> list[core.Action]:
        """The next actions, as whoever decides now answers."""
        lanes = self._lanes_to_ask(state, now)
        if not lanes:
            return super().propose(state, now)
        self._answered = [(lane, lane.own(lane.propose(state, now), state)) for lane in lanes]
        return _joined([actions for _, actions in self._answered])

    async def apropose(self, state: State, now: int) -> list[core.Action]:
        """The same without holding up the loop."""
        lanes = self._lanes_to_ask(state, now)
        if not lanes:
            return await super().apropose(state, now)
        self._answered = [(lane, lane.own(await lane.apropose(state, now), state)) for lane in lanes]
        return _joined([actions for _, actions in self._answered])

    def disposed(self, scheduled: Scheduled, now: int) -> list[Note | Command[Any]]:
        """Tell each lane what became of its own."""
        answered, self._answered = self._answered, []
        if not answered:
            return super().disposed(scheduled, now)
        wishes: list[Note | Command[Any]] = []
        for lane, actions in answered:
            wishes += lane.disposed(_own_part(scheduled, actions, self._state), now)
        return wishes


def _stop(lanes: dict[Arm, Lane]) -> None:
    for lane in lanes.values():
        lane.stop()


def _joined(answers: list[list[core.Action]]) -> list[core.Action]:
    """All answers as one; that one arm has nothing more to do does not keep the other from being asked again."""
    every = [action for answer in answers for action in answer]
    doing: list[core.Action] = [action for action in every if not isinstance(action, core.Wait)]
    return doing if doing and len(answers) > 1 else every


def _own_part(scheduled: Scheduled, actions: list[core.Action], state: State | None) -> Scheduled:
    own = {id(action) for action in actions}
    jobs = {action.job_id for action in actions if isinstance(action, core.Dispatch)}
    leases = {} if state is None else state.leases
    granted = [lease_id for lease_id in scheduled.granted if (at := leases.get(lease_id)) and at.job_id in jobs]
    return Scheduled(tuple(granted), tuple(refusal for refusal in scheduled.refused if id(refusal.action) in own))
