"""Graphs of tasks: WfCommons workflows (WfFormat 1.5), Standard Task Graphs, and PSPLIB projects (single mode)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from headgate.core.job import JobKind, JobSpec
from headgate.core.quantities import Resources
from headgate.sim.workloads.files import lines_of, read_bytes, stem_of
from headgate.sim.workloads.model import Kinds, Node, Problems, SimJob, Workload, WorkloadError

SECOND = 1000


class Task(msgspec.Struct, frozen=True):
    """A task of a graph."""

    id: str
    run: int
    parents: tuple[str, ...]
    resources: Resources = ()


def graph_workload(
    name: str, tasks: Iterable[Task], problems: Problems, *, tick: float = 0.001, nodes: tuple[Node, ...] = ()
) -> Workload:
    """All tasks are submitted at once; each waits for its parents."""
    kinds = Kinds()
    jobs = [
        SimJob(task.id, 0, task.run, JobSpec(_kind(kinds, task), task.id, dependencies=task.parents)) for task in tasks
    ]
    return Workload(name, jobs, None, tick, problems, nodes=nodes)


def _kind(kinds: Kinds, task: Task) -> JobKind:
    return kinds.of(JobKind(type="task", resources=task.resources, estimated_duration=task.run))


def critical_path(workload: Workload) -> int:
    """The longest chain of run times: no schedule of the graph is shorter."""
    runs = {job.id: job.run for job in workload.jobs}
    parents = {job.id: job.spec.dependencies for job in workload.jobs}
    done: dict[str, int] = {}
    for start in runs:
        stack = [start]
        while stack:
            job = stack[-1]
            waiting = [parent for parent in parents[job] if parent not in done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            done[job] = runs[job] + max((done[parent] for parent in parents[job]), default=0)
    return max(done.values(), default=0)


# -- Standard Task Graph Set ----------------------------------------------------------------------------------------


def read_stg(path: str | Path) -> Workload:
    """`task time predecessors...`, after a line with the number of tasks; `#` begins a comment."""
    problems, tasks, notes, count = Problems(), [], {}, None
    for number, line in lines_of(path):
        if line.startswith("#"):
            label, _, value = line.lstrip("# ").partition(":")
            notes[label.strip()] = value.strip()
            continue
        try:
            parts = [int(part) for part in line.split()]
        except ValueError:
            problems.add("number", number, "a field is not a whole number; left out")
            continue
        if count is None:
            count = parts[0]
            continue
        task = _stg_task(parts)
        if task is None:
            problems.add("fields", number, "not as many predecessors as it says; left out")
        else:
            tasks.append(task)
    if count is None:
        raise WorkloadError(f"{path} is empty", path=str(path))
    if len(tasks) not in (count, count + 2):
        problems.add("tasks", 1, f"{count} tasks are announced, {len(tasks)} are there")
    workload = graph_workload(stem_of(path), _known_parents(tasks, problems), problems)
    workload.notes = notes
    return workload


def _stg_task(parts: list[int]) -> Task | None:
    if len(parts) < 3 or len(parts) != 3 + parts[2] or parts[1] < 0:
        return None
    return Task(str(parts[0]), parts[1] * SECOND, tuple(dict.fromkeys(str(parent) for parent in parts[3:])))


def _known_parents(tasks: list[Task], problems: Problems) -> list[Task]:
    """A task whose parent was left out waits for nobody in its place."""
    known = {task.id for task in tasks}
    kept = []
    for place, task in enumerate(tasks, 1):
        parents = tuple(parent for parent in task.parents if parent in known)
        if len(parents) < len(task.parents):
            problems.add("parents", place, f"task {task.id} names a task that is not there; it waits for the others")
        kept.append(Task(task.id, task.run, parents, task.resources))
    return kept


# -- WfCommons ------------------------------------------------------------------------------------------------------


def read_wfcommons(path: str | Path) -> Workload:
    """A workflow instance; in microseconds where a run time is no whole number of milliseconds."""
    try:
        document = msgspec.json.decode(read_bytes(path))
        specified = document["workflow"]["specification"]["tasks"]
        executed = document["workflow"]["execution"]["tasks"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise WorkloadError(f"{path} is not a workflow in WfFormat 1.5: {error}", path=str(path)) from error
    problems = Problems()
    seconds = _run_times(executed, problems)
    fine = any(abs(value * 1000 - round(value * 1000)) > 1e-6 for value in seconds.values())
    scale = 1_000_000 if fine else 1_000
    tasks = []
    for place, task in enumerate(specified, 1):
        if task.get("id") not in seconds:
            problems.add("never ran", place, f"task {task.get('id')!r} has no run time; it takes none")
        run = round(seconds.get(task["id"], 0.0) * scale)
        tasks.append(Task(task["id"], run, tuple(dict.fromkeys(task.get("parents", ())))))
    return graph_workload(stem_of(path), _known_parents(tasks, problems), problems, tick=1 / scale)


def _run_times(executed: list[dict[str, Any]], problems: Problems) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for place, task in enumerate(executed, 1):
        value = task.get("runtimeInSeconds")
        if not isinstance(value, int | float) or value < 0:
            problems.add("run time", place, f"task {task.get('id')!r} ran for {value!r} seconds; it takes none")
            value = 0.0
        seconds[str(task.get("id"))] = float(value)
    return seconds


# -- PSPLIB -----------------------------------------------------------------------------------------------------------


def psplib_instances(path: str | Path) -> list[str]:
    """The names of the instances in an archive."""
    with tarfile.open(path) as archive:
        return sorted(name for name in archive.getnames() if name.endswith(".sm"))


def read_psplib(path: str | Path, instance: str | None = None) -> Workload:
    """One project: a `.sm` file, or a member of an archive of them. Each resource of it is one of a single worker."""
    if instance is None:
        return parse_psplib(stem_of(path), read_bytes(path).decode("latin-1"))
    with tarfile.open(path) as archive:
        try:
            member = archive.extractfile(instance)
        except KeyError:
            member = None
        if member is None:
            raise WorkloadError(f"{path} has no instance {instance!r}", path=str(path), field="instance")
        return parse_psplib(instance.removesuffix(".sm"), member.read().decode("latin-1"))


def parse_psplib(name: str, text: str) -> Workload:
    """A project from its text: sections of numbers under their titles."""
    sections = _sections(text)
    try:
        successors = {row[0]: row[3:] for row in sections["PRECEDENCE RELATIONS"]}
        demands = {row[0]: row[2:] for row in sections["REQUESTS/DURATIONS"]}
        offered = sections["RESOURCEAVAILABILITIES"][0]
    except (KeyError, IndexError) as error:
        raise WorkloadError(f"{name} is not a single-mode project: {error} is missing") from error
    problems = Problems()
    parents: dict[int, list[str]] = {job: [] for job in demands}
    for job, followers in successors.items():
        for follower in followers:
            if follower in parents:
                parents[follower].append(str(job))
            else:
                problems.add("successor", job, f"job {job} is followed by {follower}, which is not there")
    tasks = [
        Task(str(job), row[0] * SECOND, tuple(parents[job]), _named(row[1:])) for job, row in sorted(demands.items())
    ]
    return graph_workload(name, tasks, problems, nodes=(Node("machine", _named(offered)),))


def _named(amounts: list[int]) -> Resources:
    return tuple((f"R{place}", amount) for place, amount in enumerate(amounts, 1) if amount)


def _sections(text: str) -> dict[str, list[list[int]]]:
    """Rows of whole numbers by the title they stand under."""
    found: dict[str, list[list[int]]] = {}
    title = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.endswith(":") and not stripped[0].isdigit():
            title = stripped.rstrip(":").strip()
            continue
        parts = stripped.split()
        if title and parts and all(part.lstrip("-").isdigit() for part in parts):
            found.setdefault(title, []).append([int(part) for part in parts])
    return found
