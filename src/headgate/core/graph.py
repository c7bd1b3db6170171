"""The dependency graph: who waits for whom. Kept apart from the jobs, since most jobs depend on nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.core.errors import DependencyCycle


class Graph:
    """Open edges only: an edge goes when the dependency ends. Beside them, which jobs the live ones name at all."""

    __slots__ = ("_children", "_depth", "_named", "_names", "_pending")

    def __init__(self) -> None:
        self._children: dict[str, list[str]] = {}
        self._pending: dict[str, set[str]] = {}
        self._depth: dict[str, int] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._named: dict[str, int] = {}

    def add(self, job_id: str, waits_for: Iterable[str], depth: int, names: tuple[str, ...] = ()) -> None:
        """`job_id` waits for the given jobs; `names` are all of its dependencies, ended or not."""
        if depth:
            self._depth[job_id] = depth
        pending = set(waits_for)
        if pending:
            self._pending[job_id] = pending
        for dependency in sorted(pending):
            self._children.setdefault(dependency, []).append(job_id)
        if names:
            self._names[job_id] = names
            for dependency in names:
                self._named[dependency] = self._named.get(dependency, 0) + 1

    def needed(self, job_id: str) -> bool:
        """Whether a live job depends on this one, even if it no longer waits for it."""
        return job_id in self._named

    def named(self) -> Mapping[str, int]:
        """How many live jobs depend on each job that any depends on."""
        return self._named

    def depth(self, job_id: str) -> int:
        """The length of the longest chain of dependencies below a job."""
        return self._depth.get(job_id, 0)

    def children(self, job_id: str) -> list[str]:
        """Jobs that wait for this one."""
        return self._children.get(job_id, [])

    def pending(self, job_id: str) -> set[str]:
        """Jobs that this one still waits for."""
        return self._pending.get(job_id, set())

    def resolve(self, child: str, dependency: str) -> None:
        """An edge is done with."""
        pending = self._pending.get(child)
        if pending is not None:
            pending.discard(dependency)
            if not pending:
                del self._pending[child]

    def settle(self, job_id: str) -> None:
        """A job ended: nobody waits for it any longer, it waits for nobody and needs nobody."""
        for dependency in self._names.pop(job_id, ()):
            self._named[dependency] -= 1
            if not self._named[dependency]:
                del self._named[dependency]
        self._children.pop(job_id, None)
        for dependency in self._pending.pop(job_id, ()):
            siblings = self._children.get(dependency)
            if siblings is not None and len(siblings) < 64:
                siblings.remove(job_id)

    def forget(self, job_id: str) -> None:
        """The job itself is forgotten."""
        self._depth.pop(job_id, None)

    def waiting(self) -> Mapping[str, set[str]]:
        """All jobs with open dependencies."""
        return self._pending


def depths(edges: Mapping[str, tuple[str, ...]], known: Graph) -> dict[str, int]:
    """The depth of each new job, dependencies first; raise `DependencyCycle` if there is no such order."""
    found: dict[str, int] = {}
    waiting = {job: [d for d in deps if d in edges] for job, deps in edges.items()}
    missing = {job: len(deps) for job, deps in waiting.items()}
    dependents: dict[str, list[str]] = {}
    for job, deps in waiting.items():
        for dependency in deps:
            dependents.setdefault(dependency, []).append(job)
    free = [job for job, count in missing.items() if count == 0]
    while free:
        job = free.pop()
        found[job] = max((found.get(d, known.depth(d)) + 1 for d in edges[job]), default=0)
        for dependent in dependents.get(job, ()):
            missing[dependent] -= 1
            if missing[dependent] == 0:
                free.append(dependent)
    if len(found) != len(edges):
        circle = min(job for job in edges if job not in found)
        raise DependencyCycle(f"{circle} depends on itself through other jobs", field="dependencies", job_id=circle)
    return found
