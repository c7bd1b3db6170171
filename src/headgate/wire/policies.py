"""Policies and their decisions on the wire."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.wire.base import Body, Json, Out


class SourceIn(Body, frozen=True):
    """A policy's source."""

    language: Literal["lua", "yaml"]
    source: str
    name: str | None = None


class DeployIn(Body, frozen=True):
    """A policy to keep and to put in charge, or to let watch."""

    language: Literal["lua", "yaml"]
    source: str
    name: str | None = None
    base_version: str | msgspec.UnsetType | None = msgspec.UNSET
    mode: Literal["active", "shadow"] = "active"
    force: bool = False
    why: str = ""


class RollbackIn(Body, frozen=True):
    """Back to a version, or to the one before."""

    to: str | None = None
    why: str = ""


class EnableIn(Body, frozen=True):
    """Re-arm a tripped policy."""

    why: str = ""


class DiagnosticOut(Out, frozen=True):
    """One problem of a source at one place; lines and columns count from 1."""

    code: str
    message: str
    line: int
    column: int
    severity: str = "error"
    suggestion: str | None = None
    path: str = ""


class ValidationOut(Out, frozen=True):
    """What the checks of a policy found."""

    ok: bool
    diagnostics: list[DiagnosticOut]
    lua: str = ""
    version: str | None = None
    """The id that this very content would have."""
    contexts: int = 0
    p50_us: int = 0
    p99_us: int = 0
    limit_ms: int = 0


class VersionOut(Out, frozen=True):
    """A policy version as deployed."""

    id: str
    name: str
    version: str
    language: str
    sha256: str
    created_at: float
    author: str = ""
    note: str = ""
    source: str | None = None
    lua: str | None = None
    status: str = ""
    """`active`, `shadow`, `tripped` or nothing."""


class MoveOut(Out, frozen=True):
    """One move of the pointer to the active policy."""

    at: float
    active: str | None
    shadow: str | None
    who: str
    why: str


class VersionsOut(Out, frozen=True):
    """The library of policies, and which of them decides; none active: the platform policy."""

    versions: list[VersionOut]
    active: str | None = None
    shadow: str | None = None
    tripped: dict[str, Json] | None = None
    moves: list[MoveOut] = []
    experiment: str | None = None
    """The experiment that runs: its arms decide meanwhile."""


class PointerOut(Out, frozen=True):
    """Which version decides now."""

    active: str | None
    shadow: str | None = None
    tripped: dict[str, Json] | None = None


class TemplateOut(Out, frozen=True):
    """A policy to start from."""

    name: str
    purpose: str
    language: str
    source: str


class TemplatesOut(Out, frozen=True):
    """The library of templates."""

    templates: list[TemplateOut]


class PlatformSourceOut(Out, frozen=True):
    """The platform policy."""

    language: str
    version: str
    source: str


class DecisionOut(Out, frozen=True):
    """One decision of the policy."""

    id: str
    at: float
    decided_by: str
    version: str
    actions: list[dict[str, Json]]
    refused: list[dict[str, Json]] = []
    failure: str = ""
    message: str = ""
    took_us: int = 0
    waited_us: int = 0
    attempted: str = ""
    shadow: dict[str, Json] | None = None
    traceback: str = ""
    trace: list[str] = []
    logs: list[tuple[str, str]] = []
    question: dict[str, Json] = {}
    told: list[dict[str, Json]] = []
    """What the policy was told since the decision before, as deltas."""
    keyframe: bool = False
    arm: str = ""
    """The experiment and its arm, where one was running."""


class DecisionsOut(Out, frozen=True):
    """Recorded decisions; `next` continues, given as `after`."""

    decisions: list[DecisionOut]
    next: str | None = None


class ReplayIn(Body, frozen=True):
    """A draft to answer in place of the policy that decided; without a source that very policy is asked again."""

    language: Literal["lua", "yaml"] = "lua"
    source: str | None = None
    trace: bool = False
    """Also each line that runs, with the variables that change."""


class TraceStepOut(Out, frozen=True):
    """One line that ran, what it asked of the library, and the variables that changed."""

    depth: int
    source: str
    line: int
    text: str
    function: str
    rule: str = ""
    calls: list[str] = []
    changed: dict[str, str] = {}
    arguments: dict[str, str] = {}


class DecisionContextOut(Out, frozen=True):
    """Everything that is needed to make a decision once more: what the policy was told, as msgpack, and the policy."""

    id: str
    version: str
    language: Literal["lua", "yaml"]
    source: str
    lua: str
    frames: list[bytes]
    question: dict[str, Json]
    actions: list[dict[str, Json]]
    failure: str = ""


class ReplayOut(Out, frozen=True):
    """The recorded answer beside the replayed one."""

    same: bool
    recorded: list[dict[str, Json]]
    replayed: list[dict[str, Json]]
    failure: str = ""
    message: str = ""
    trace: list[TraceStepOut] | None = None
