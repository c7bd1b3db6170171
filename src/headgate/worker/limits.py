"""Limits on the processes of a job: what it asked for is what it gets, where the system allows that.

In a writable cgroup v2 memory and CPU are held exactly; elsewhere memory is held by `RLIMIT_DATA`, and the CPU time by
`RLIMIT_CPU` where the job has a timeout.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
from pathlib import Path

from headgate.worker.assignment import Assignment

_PERIOD = 100_000
_ROOT = Path("/sys/fs/cgroup")


class JobGroup:
    """The cgroup of one job."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def procs(self) -> str:
        """The file by which a process enters it; what the process starts is in it too."""
        return str(self._path / "cgroup.procs")

    def kill(self) -> None:
        """Kill everything inside, also what left the process group, and remove the group."""
        with contextlib.suppress(OSError):
            (self._path / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):
            self._path.rmdir()


class Limiter:
    """Says how a job is to be held. `root` is the cgroup in which groups may be made; none: `RLIMIT`s alone."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    def prepare(self, work: Assignment) -> tuple[JobGroup | None, list[tuple[int, int]]]:
        """The group that its process shall enter, or the limits that it shall have instead."""
        asked = dict(work.resources)
        memory, cpu = asked.get("memory"), asked.get("cpu")
        group = self._group(work, memory, cpu)
        if group is not None:
            return group, []
        limits = []
        if memory:
            limits.append((resource.RLIMIT_DATA, _bound(resource.RLIMIT_DATA, int(memory))))
        if work.timeout is not None:
            seconds = math.ceil(work.timeout / 1000 * (cpu or os.cpu_count() or 1)) + 1
            limits.append((resource.RLIMIT_CPU, _bound(resource.RLIMIT_CPU, seconds)))
        return None, limits

    def _group(self, work: Assignment, memory: float | None, cpu: float | None) -> JobGroup | None:
        if self._root is None or not (memory or cpu):
            return None
        path = self._root / f"headgate-{work.job_id}-{work.attempt}"
        try:
            path.mkdir()
            if memory:
                (path / "memory.max").write_text(str(int(memory)))
                with contextlib.suppress(OSError):  # a kernel without swap accounting
                    (path / "memory.swap.max").write_text("0")
            if cpu:
                (path / "cpu.max").write_text(f"{max(1_000, round(cpu * _PERIOD))} {_PERIOD}")
        except OSError:
            with contextlib.suppress(OSError):
                path.rmdir()
            return None
        return JobGroup(path)


def _bound(what: int, limit: int) -> int:
    _, hard = resource.getrlimit(what)
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def own_cgroup(root: Path = _ROOT, own: Path = Path("/proc/self/cgroup")) -> Path | None:
    """The cgroup of this process, if groups with memory and CPU limits can be made in it."""
    try:
        line = next(line for line in own.read_text().splitlines() if line.startswith("0::"))
        path = root / line[3:].lstrip("/")
        controllers = (path / "cgroup.subtree_control").read_text().split()
    except (OSError, StopIteration):
        return None
    if not {"memory", "cpu"} <= set(controllers) or not os.access(path, os.W_OK):
        return None
    return path
