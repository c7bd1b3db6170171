"""What a workload is: jobs with the time they arrive and how long they really run, and what was wrong with the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headgate.core.errors import InvalidInput
from headgate.core.job import JobKind, JobSpec

MOST_PROBLEMS = 100
"""So many problems of one kind are kept with their line; beyond that they are only counted."""


class WorkloadError(InvalidInput):
    """A workload that cannot be read at all."""


class SimJob(msgspec.Struct, frozen=True, gc=False):
    """A job to be: what is submitted, when, and what only the world knows: how long it really runs."""

    id: str
    at: int
    """When it is submitted."""
    run: int
    """How long it runs, if nothing happens to it."""
    spec: JobSpec
    fails: int = 0
    """So many attempts fail at the end of their run before one succeeds."""
    user: str = ""
    """Whose job it is, where tenants are not simulated."""


class Problem(msgspec.Struct, frozen=True):
    """Something wrong in a file: where, and what was done about it."""

    line: int
    text: str


class Problems:
    """Counts problems by kind and keeps the first of each with their lines."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.found: dict[str, list[Problem]] = {}

    def add(self, kind: str, line: int, text: str) -> None:
        """Note one."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        kept = self.found.setdefault(kind, [])
        if len(kept) < MOST_PROBLEMS:
            kept.append(Problem(line, text))

    @property
    def total(self) -> int:
        """How many there are of all kinds."""
        return sum(self.counts.values())

    def summary(self) -> str:
        """One line a kind, with the first lines it was seen on."""
        parts = []
        for kind, count in sorted(self.counts.items()):
            lines = ", ".join(str(problem.line) for problem in self.found[kind][:5])
            more = ", ..." if count > 5 else ""
            parts.append(f"{kind}: {count} (line {lines}{more}): {self.found[kind][0].text}")
        return "\n".join(parts)


class Workload(msgspec.Struct):
    """Jobs in the order of their arrival, and what the file says of the machine they ran on."""

    name: str
    jobs: Sequence[SimJob]
    processors: int | None = None
    """The size of the machine, where the source names one."""
    tick: float = 0.001
    """Seconds that one unit of time stands for: a log in microseconds is simulated in microseconds."""
    problems: Problems = msgspec.field(default_factory=Problems)
    notes: dict[str, str] = {}
    nodes: Sequence[Node] = ()
    """The machines of the source, where it lists them."""

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[SimJob]:
        return iter(self.jobs)


class Node(msgspec.Struct, frozen=True):
    """A machine of the source."""

    id: str
    resources: tuple[tuple[str, int | float], ...]
    labels: tuple[tuple[str, str], ...] = ()


class Kinds:
    """Equal kinds as one object: jobs of a long log share a few thousand of them."""

    def __init__(self) -> None:
        self._known: dict[JobKind, JobKind] = {}

    def of(self, kind: JobKind) -> JobKind:
        """The one object for a kind."""
        return self._known.setdefault(kind, kind)


def in_order(jobs: list[SimJob]) -> list[SimJob]:
    """By time of arrival; those that come at once stay in the order of the file."""
    return sorted(jobs, key=_arrival)


def _arrival(job: SimJob) -> int:
    return job.at
