"""An order for a simulation as it travels to another process, and carrying it out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from headgate.core.errors import InvalidInput
from headgate.sim.cluster import Cluster, cluster_for, machine
from headgate.sim.forking import Fork
from headgate.sim.future import Arrivals, future
from headgate.sim.lockstep import Ended, Frame, Lane, OnFrame, together
from headgate.sim.outcome import Outcome, outcome
from headgate.sim.policies import OpenPolicy, open_policy, open_source
from headgate.sim.records import nobody
from headgate.sim.whatif import Changes
from headgate.sim.workloads import read_workload
from headgate.sim.workloads.generate import Shape, generate
from headgate.sim.workloads.model import Workload, WorkloadError
from headgate.sim.world import GoOn

MOST_FRAMES = 2_000
HORIZON = 3_600_000
"""How far ahead a fork is simulated where nothing is said, in milliseconds."""


class PolicyOrder(msgspec.Struct, frozen=True):
    """A policy: by its name where it comes with Headgate, else with its Lua."""

    name: str
    lua: str | None = None

    def open(self) -> OpenPolicy:
        """Ready to decide."""
        return open_policy(self.name) if self.lua is None else open_source(self.name, self.lua)


class SideOrder(msgspec.Struct, frozen=True):
    """One world: who decides, and what is different."""

    policy: PolicyOrder
    changes: Changes = Changes()


class Sample(msgspec.Struct, frozen=True, tag="sample"):
    """A workload by formula."""

    model: str
    shape: Shape


class Upload(msgspec.Struct, frozen=True, tag="upload"):
    """A workload as the content of a file."""

    text: str
    format: str | None = None
    name: str = "upload"


class Order(msgspec.Struct, frozen=True):
    """What to simulate: the live state from a moment on, or a workload from its first job to its last."""

    sides: tuple[SideOrder, ...]
    fork: Fork | None = None
    workload: Sample | Upload | None = None
    processors: int | None = None
    horizon: int | None = None
    arrivals: Arrivals = "none"
    seeds: int = 1
    frames: int = 200
    """Into how many frames the time is divided, about."""
    most_jobs: int = 100_000
    limit_s: float | None = None
    """Seconds that it may take."""


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="type"):
    """The order is understood. Times are milliseconds of the simulation; where it ends may not be known."""

    policies: list[str]
    jobs: int
    begin: int
    until: int | None
    tick: float
    problems: dict[str, int]


class Progress(msgspec.Struct, frozen=True, tag="progress", tag_field="type"):
    """How much of the work is done, from 0 to 1."""

    done: float


class _Plan(msgspec.Struct, frozen=True):
    """What the worlds of an order have in common."""

    name: str
    source: Fork | Workload
    jobs: int
    begin: int
    until: int | None
    span: int
    tick: float
    problems: dict[str, int]


Tell = Callable[[Ready | Progress | Frame], object]


def what_if(
    fork: Fork, policy: str | Path, baseline: str | Path = "platform", *, horizon: int = HORIZON,
    arrivals: Arrivals = "none", seeds: int = 1, changes: Changes | None = None,
) -> Outcome:  # fmt: skip
    """What would happen from the moment of a fork on: the baseline as things are, the policy under the changes."""
    sides = (
        SideOrder(PolicyOrder(str(baseline))),
        SideOrder(PolicyOrder(str(policy)), changes or Changes()),
    )  # fmt: skip
    return carry_out(Order(sides, fork, horizon=horizon, arrivals=arrivals, seeds=seeds), nobody)


def carry_out(order: Order, tell: Tell, go_on: GoOn | None = None) -> Outcome:
    """Do it. What is wrong with a policy or a workload is raised before the first frame.

    Where `go_on` says no, the outcome is what was seen until then: the futures that were simulated whole, or the first
    one as far as it came.
    """
    if not 1 <= len(order.sides) <= 2:
        raise InvalidInput("one or two are needed", field="policies")
    if not 1 <= order.seeds <= 100:
        raise InvalidInput("must be between 1 and 100", field="seeds")
    plan = _plan(order)
    shown = _futures(order, plan, tell, go_on)
    found = outcome(plan.name, shown.rounds, plan.begin, shown.until, [side.changes.words() for side in order.sides])
    found.cut = bool(shown.cut)
    found.notes = [*filter(None, [shown.cut]), *_notes(order, plan)]
    return found


class _Shown(NamedTuple):
    """Worlds that were simulated, one round a future; until when; and where it was cut, if it was."""

    rounds: list[list[Lane]]
    until: int
    cut: str = ""


def _futures(order: Order, plan: _Plan, tell: Tell, go_on: GoOn | None) -> _Shown:
    with ExitStack() as stack:
        first = _lanes(order, plan, 0, stack)
        tell(Ready([lane.opened.name for lane in first], plan.jobs, plan.begin, plan.until, plan.tick, plan.problems))
        ended = _run(order, plan, first, tell, 0, go_on)
    rounds, last = [first], ended.at
    if ended.cut:
        passed = (last - plan.begin) * plan.tick
        note = f"it took too long and was cut {passed:,.0f} s after its beginning; what would come later is not in here"
        return _Shown(rounds, last, note)
    for seed in range(1, order.seeds):
        with ExitStack() as stack:
            lanes = _lanes(order, plan, seed, stack)
            ended = _run(order, plan, lanes, tell, seed, go_on)
        if ended.cut:
            note = f"it took too long and was cut: {seed} of {order.seeds} futures were simulated"
            return _Shown(rounds, last if plan.until is None else plan.until, note)
        rounds.append(lanes)
        last = max(last, ended.at)
    return _Shown(rounds, last if plan.until is None else plan.until)


def _read(order: Order) -> Workload:
    given = order.workload
    if given is None:
        raise InvalidInput("is needed", field="workload")
    found = generate(given.model, 0, given.shape) if isinstance(given, Sample) else _upload(given)
    if not found.jobs:
        first = next((kept[0] for kept in found.problems.found.values()), None)
        text = "holds no job" + (f": line {first.line}: {first.text}" if first else "")
        raise WorkloadError(text, field="workload", line=first.line if first else None)
    if len(found) > order.most_jobs:
        raise WorkloadError(f"holds {len(found):,} jobs; at most {order.most_jobs:,} are simulated", field="workload")
    return found


def _upload(given: Upload) -> Workload:
    with tempfile.TemporaryDirectory(prefix="headgate-") as directory:
        path = Path(directory) / "workload"
        path.write_text(given.text, "utf-8")
        try:
            found = read_workload(path, given.format)
        except InvalidInput as error:
            text = str(error).replace(f"{path}: ", "").replace(str(path), "the workload")
            details = {name: value for name, value in error.details.items() if name != "field"}
            raise WorkloadError(text.removeprefix(f"{error.field}: "), field="workload", **details) from None
    found.name = given.name
    return found


def _plan(order: Order) -> _Plan:
    if order.fork is not None:
        fork, horizon = order.fork, order.horizon or HORIZON
        if len(fork.jobs) > order.most_jobs:
            raise InvalidInput(f"at most {order.most_jobs:,} jobs are simulated", field="jobs")
        return _Plan("the live state", fork, len(fork.jobs), fork.at, fork.at + horizon, horizon, 0.001, {})
    workload = _read(order)
    begin = workload.jobs[0].at
    until = None if order.horizon is None else begin + round(order.horizon * 0.001 / workload.tick)
    span = _span(order, workload) if until is None else until - begin
    problems = workload.problems.counts
    return _Plan(workload.name, workload, len(workload), begin, until, span, workload.tick, problems)


def _span(order: Order, workload: Workload) -> int:
    """How long it will last, about: until the last job comes, and not before all the work can be done."""
    units = _cluster(order, workload).settings.total_units
    work = sum(job.run * job.spec.kind.units for job in workload.jobs) // max(1, units)
    longest = max(job.run for job in workload.jobs)
    return max(1, workload.jobs[-1].at - workload.jobs[0].at, work, longest)


def _lanes(order: Order, plan: _Plan, seed: int, stack: ExitStack) -> list[Lane]:
    lanes = []
    for side in order.sides:
        opened = stack.enter_context(side.policy.open())
        if isinstance(plan.source, Fork):
            ahead = future(plan.source, plan.span, arrivals=order.arrivals, seed=seed, changes=side.changes)
            lane = Lane(opened, ahead.cluster, ahead.arriving, seed=seed, begin=ahead.begin, span=plan.span)
        else:
            given = _again(order, plan.source, seed)
            jobs = side.changes.workload(given).jobs
            cluster = side.changes.cluster(_cluster(order, given))
            lane = Lane(opened, cluster, jobs, tick=plan.tick, seed=seed, span=plan.span)
        lanes.append(lane)
    return lanes


def _again(order: Order, workload: Workload, seed: int) -> Workload:
    """A formula makes another workload for every seed; a file is what it is."""
    if seed and isinstance(order.workload, Sample):
        return generate(order.workload.model, seed, order.workload.shape)
    return workload


def _cluster(order: Order, workload: Workload) -> Cluster:
    return machine(order.processors) if order.processors else cluster_for(workload)


def _run(order: Order, plan: _Plan, lanes: list[Lane], tell: Tell, seed: int, go_on: GoOn | None) -> Ended:
    def frame(seen: Frame) -> None:
        if seed == 0 and seen.number <= MOST_FRAMES:
            tell(seen)
        tell(Progress(min(1.0, (seed + _share(plan, seen)) / order.seeds)))

    on_frame: OnFrame = frame
    every = max(1, plan.span // max(1, min(order.frames, MOST_FRAMES)))
    return together(lanes, every, until=plan.until, on_frame=on_frame, go_on=go_on)


def _share(plan: _Plan, frame: Frame) -> float:
    if plan.until is not None:
        return (frame.at - plan.begin) / max(1, plan.until - plan.begin)
    return min(seen.ended for seen in frame.seen) / max(1, plan.jobs)


def _notes(order: Order, plan: _Plan) -> list[str]:
    if isinstance(plan.source, Workload):
        found = plan.source.problems.found
        return [
            f"{kind}: {count} in the workload (line {', '.join(str(problem.line) for problem in found[kind][:5])})"
            for kind, count in sorted(plan.problems.items())
        ]
    notes, fork = list[str](), plan.source
    if fork.left_out:
        notes.append(f"{fork.left_out:,} waiting jobs were left out: the last ones submitted")
    if not fork.usable_units:
        notes.append("the gate is shut: at the present load nothing new is granted, whatever the policy says")
    if order.arrivals == "recent" and not fork.recent:
        notes.append("no job was submitted lately, so none arrives")
    if not fork.runs:
        notes.append("no job has run yet: run times are what the submitters said, or a minute")
    return notes
