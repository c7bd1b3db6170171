"""Bodies of the calls that simulate, compare and try out policies."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headgate.wire.http import Body, Json, Out, Problem

Positive = Annotated[float, Meta(gt=0, le=1_000)]


# -- what to simulate ---------------------------------------------------------------------------------------------


class PolicyIn(Body, frozen=True):
    """A policy: by name (`active`, `platform`, a template, a version), or a draft with its language and source."""

    name: str = "active"
    language: Literal["lua", "yaml"] = "lua"
    source: str | None = None


class ChangesIn(Body, frozen=True):
    """What is different: so many times the machines, pools that are gone, jobs that come so many times as fast."""

    scale: Positive = 1.0
    without_pools: Annotated[tuple[str, ...], Meta(max_length=1_000)] = ()
    load: Positive = 1.0


class SampleIn(Body, frozen=True, tag="sample", tag_field="kind"):
    """A workload by formula."""

    model: str = "lublin"
    jobs: Annotated[int, Meta(ge=1, le=1_000_000)] = 500
    processors: Annotated[int, Meta(ge=1, le=1_000_000)] = 64
    load: Annotated[float, Meta(gt=0, le=100)] = 1.2
    tenants: Annotated[int, Meta(ge=1, le=1_000)] = 1


class LiveIn(Body, frozen=True, tag="live", tag_field="kind"):
    """The state of this very server, from now on; jobs arrive as they did lately, or not at all."""

    arrivals: Literal["recent", "none"] = "recent"


class UploadIn(Body, frozen=True, tag="upload", tag_field="kind"):
    """The content of a file, in any format that `headgate sim` reads; the format is guessed where it is not named."""

    text: str
    format: str | None = None
    name: Annotated[str, Meta(min_length=1, max_length=100)] = "upload"
    processors: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class SimulateIn(Body, frozen=True):
    """One policy, or two side by side on the same future.

    On the live state the policy is held against the one that decides now unless another is named; elsewhere it runs
    alone unless another is named. The changes are made to the world of `policy` alone.
    """

    policy: PolicyIn = PolicyIn()
    against: PolicyIn | None = None
    workload: SampleIn | LiveIn | UploadIn = SampleIn()
    changes: ChangesIn = ChangesIn()
    horizon: float | str | None = None
    """Seconds, or a text such as '1h': how far to look. None: an hour of the live state, a workload to its end."""
    seeds: Annotated[int, Meta(ge=1, le=100)] = 1
    frames: Annotated[int, Meta(ge=1, le=1_000)] = 200


class PlaybackIn(Body, frozen=True):
    """What to do with the playback; what is not given stays."""

    playing: bool | None = None
    speed: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    """Simulated seconds in a second; 0: as fast as frames come."""
    step: Annotated[int, Meta(ge=-1_000, le=1_000)] | None = None
    """So many frames on, or back; the playback pauses."""
    seek: Annotated[float, Meta(ge=0, le=1e15)] | None = None
    """Seconds since the beginning of the simulation."""


# -- what came of it ----------------------------------------------------------------------------------------------


class IntervalOut(Out, frozen=True):
    """A mean and where it lies with 95 % confidence."""

    mean: float
    low: float
    high: float


class GrantOut(Out, frozen=True, array_like=True):
    """A decision that held: when (milliseconds), which job, on which worker, the policy's reason, and its number."""

    at: int
    job_id: str
    worker_id: str
    reason: str
    decision: int = 0


class DivergenceOut(Out, frozen=True):
    """The first decision in which two policies part; `elsewhere` says when the other one starts that job."""

    seed: int
    number: int
    first: GrantOut | None = None
    second: GrantOut | None = None
    first_elsewhere: int | None = None
    second_elsewhere: int | None = None


class ShiftOut(Out, frozen=True):
    """A job that starts at another time; seconds since the beginning, none: not within the time looked at."""

    job_id: str
    tenant: str
    job_class: str
    before: float | None = None
    after: float | None = None
    wait_change: float = 0.0


class GroupChangeOut(Out, frozen=True):
    """The jobs of one class or tenant: means before and after."""

    jobs: int
    wait_before: float
    wait_after: float
    slowdown_before: float
    slowdown_after: float


class ChangeOut(Out, frozen=True):
    """The policy against the other one; below zero is better."""

    wait: IntervalOut
    slowdown: IntervalOut
    utilisation: float
    jobs: int
    better: int
    worse: int
    classes: dict[str, GroupChangeOut]
    tenants: dict[str, GroupChangeOut]
    shifts: list[ShiftOut]
    divergence: DivergenceOut | None = None


class SideOut(Out, frozen=True):
    """One world: who decided, and how it went."""

    policy: str
    changes: str
    started: int
    ended: int
    utilisation: float
    mean_wait: float
    mean_slowdown: float
    failures: dict[str, int]
    refusals: int
    decisions: int


class OutcomeOut(Out, frozen=True):
    """What a simulation has shown. Times are seconds; those of decisions units of `tick` seconds, from `begin` on."""

    workload: str
    jobs: int
    seconds: float
    begin: int
    tick: float
    seeds: int
    sides: list[SideOut]
    change: ChangeOut | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    cut: bool = False
    """It took too long and was stopped: this is what it had shown until then."""


class PlaybackOut(Out, frozen=True):
    """Where the playback stands: seconds since the beginning of the simulation, and the frame shown last."""

    playing: bool
    speed: float
    at: float
    frame: int


class RunOut(Out, frozen=True):
    """A simulation: `starting`, `running`, `done`, `failed` or `cancelled`."""

    id: str
    state: str
    who: str
    created_at: float
    workload: str
    policies: list[str]
    progress: float
    playback: PlaybackOut
    topic: str
    """The topic of the live feed that shows it."""
    frames: int = 0
    jobs: int = 0
    begin: float = 0.0
    until: float | None = None
    problem: Problem | None = None
    outcome: OutcomeOut | None = None


class RunsOut(Out, frozen=True):
    """Simulations of late, newest first, and how many may run at once."""

    runs: list[RunOut]
    most_running: int
    most_jobs: int
    longest: float
    """Seconds that one may take."""


class StartOut(Out, frozen=True):
    """A job that started since the frame before; milliseconds."""

    job_id: str
    worker_id: str
    at: int


class SeenOut(Out, frozen=True):
    """One world at the time of a frame."""

    queued: int
    running: int
    leased_units: int
    usable_units: int
    ended: int
    starts: list[StartOut]
    more_starts: int = 0


class FrameOut(Out, frozen=True):
    """All worlds at one time, in milliseconds of the simulation, in the order of `policies`."""

    number: int
    at: int
    seen: list[SeenOut]


class FramesOut(Out, frozen=True):
    """Frames of a simulation, in order."""

    frames: list[FrameOut]


Figures = dict[str, Json]


def read_outcome(found: Figures) -> OutcomeOut:
    """An outcome as a simulation told it."""
    return msgspec.convert(found, OutcomeOut)
