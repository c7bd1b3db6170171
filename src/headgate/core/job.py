"""What a job is: the specification a caller submits, checked once at the door.

A specification has two parts. `JobKind` holds what many jobs share (what runs, its class, tenant and needs); equal
kinds are kept once in memory however many jobs there are. `JobSpec` holds the kind and what is this job's own.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.core.quantities import Resources

CLASSES = ("high", "normal", "low", "background")
HIGH, NORMAL, LOW, BACKGROUND = range(4)

PRIORITIES = {
    "high": HIGH,
    "normal": NORMAL,
    "low": LOW,
    "background": BACKGROUND,
    "interactive": HIGH,
    "batch": LOW,
    "highest": HIGH,
    "lowest": BACKGROUND,
}
"""Every priority name and the index of its class."""

NUMBERED = {1: "lowest", 2: "low", 3: "normal", 4: "high", 5: "highest"}

DEFAULT_TENANT = "default"


class PythonRun(msgspec.Struct, frozen=True, tag="python", tag_field="kind"):
    """Call a registered handler or an import path such as `package.module:function`; empty means the job's type."""

    handler: str = ""


class CommandRun(msgspec.Struct, frozen=True, tag="command", tag_field="kind"):
    """Run a command in a fresh process."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None


class HttpRun(msgspec.Struct, frozen=True, tag="http", tag_field="kind"):
    """Make an HTTP call; the payload is the body unless one is given."""

    url: str
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None


class ExternalRun(msgspec.Struct, frozen=True, tag="external", tag_field="kind"):
    """The submitter holds the lease and does the work itself: no worker is needed."""


Run = PythonRun | CommandRun | HttpRun | ExternalRun
RetryOutcome = Literal["failed", "expired"]


class Retry(msgspec.Struct, frozen=True, array_like=True):
    """How often a job may be attempted and how long to wait in between."""

    attempts: int = 1
    initial: int = 1_000
    factor: float = 2.0
    max: int = 300_000
    jitter: float = 0.1
    on: tuple[RetryOutcome, ...] = ("failed", "expired")

    def delay(self, attempt: int, chance: float) -> int:
        """Milliseconds to wait after `attempt` failed; `chance` in 0..1 spreads the delay by the jitter."""
        try:
            growth = float(self.factor) ** (attempt - 1)
        except OverflowError:  # longer than any number: the longest delay it is
            growth = float(self.max)
        plain = min(self.initial * growth, float(self.max))
        return round(plain * (1 + self.jitter * (2 * chance - 1)))


ONCE = Retry()
PYTHON = PythonRun()
EXTERNAL = ExternalRun()


class JobKind(msgspec.Struct, frozen=True, gc=False, cache_hash=True, array_like=True):
    """What jobs of one kind share. New fields go to the end: rows on disk are arrays."""

    type: str = "generic"
    run: Run = PYTHON
    priority: str = "normal"
    rank: int = 0
    tenant: str = DEFAULT_TENANT
    units: int = 1
    resources: Resources = ()
    model_ref: str | None = None
    max_tokens: int | None = None
    pool: str | None = None
    requires: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    timeout: int | None = None
    estimated_duration: int | None = None
    retry: Retry = ONCE
    checkpointable: bool = False
    on_dependency_failure: Literal["fail", "run"] = "fail"

    @property
    def job_class(self) -> int:
        """The index of the class that the priority belongs to."""
        return PRIORITIES[self.priority]

    @property
    def external(self) -> bool:
        """Whether the submitter does the work itself."""
        return type(self.run) is ExternalRun

    @property
    def handler(self) -> bool:
        """Whether a Python handler of that name must be there: no import path says where the function is."""
        return type(self.run) is PythonRun and ":" not in (self.run.handler or self.type)


class JobSpec(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A valid job as submitted. `payload` and `attributes` are encoded JSON. New fields go to the end."""

    kind: JobKind
    name: str
    payload: bytes = b"null"
    seed: int | None = None
    attributes: bytes = b"{}"
    dependencies: tuple[str, ...] = ()
    not_before: int | None = None
    deadline: int | None = None
    idempotency_key: str | None = None
