"""Control groups, version 1 and 2: what a container may use, and what it does use.

Limits of every level count, from the process's own group up to what is mounted: the tightest one binds. Files that are
there at the start have to stay readable; one that goes missing later is a failure, never "no limit".
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from headgate.load.probe import ProbeFailed

_NO_LIMIT = 1 << 60
"""Version 1 writes "no limit" as a number near 2**63."""


class Group(NamedTuple):
    """One level of the hierarchy of a controller, as a directory."""

    path: Path
    version: int
    below: str
    """Where it stands below what is mounted."""


class CpuUse(NamedTuple):
    """What a group with a CPU limit has used since it was made."""

    cpus: float
    """The limit, in cores."""
    used: float | None
    """Seconds of CPU time; none where version 1 does not account for this group."""
    periods: int
    throttled: int
    """Periods of enforcement, and those in which the group was held back."""


class MemoryUse(NamedTuple):
    """What a group with a memory limit holds, in bytes, without what the kernel can drop at once."""

    limit: int
    used: int


class Cgroup:
    """The groups that this process is in. `root` is where `/` is, for tests."""

    def __init__(self, root: Path = Path("/"), pid: str = "self") -> None:
        self._root = root
        self._pid = pid
        self._cpu = [group for group in self._levels("cpu") if _has_cpu_limit(group)]
        self._memory = [group for group in self._levels("memory") if _has_memory_limit(group)]
        self._accounts = {group.below: group.path for group in self._levels("cpuacct")}

    def cpu(self) -> CpuUse | None:
        """The tightest CPU limit and its use; none without a limit."""
        found = [(cpus, group) for group in self._cpu if (cpus := _cpu_limit(group)) is not None]
        if not found:
            return None
        cpus, group = min(found, key=lambda pair: pair[0])
        stat = _table(group.path / "cpu.stat")
        return CpuUse(cpus, self._used(group, stat), stat.get("nr_periods", 0), stat.get("nr_throttled", 0))

    def memory(self) -> MemoryUse | None:
        """The memory limit that is nearest to being reached; none without a limit."""
        found = [use for group in self._memory if (use := _memory_use(group)) is not None]
        return max(found, key=lambda use: use.used / use.limit, default=None)

    def pressure_file(self, what: str) -> Path | None:
        """The group's own pressure file, where it is limited and the kernel keeps one."""
        groups = self._memory if what == "memory" else self._cpu
        for group in groups:
            path = group.path / f"{what}.pressure"
            if group.version == 2 and path.exists():
                return path
        return None

    def _used(self, group: Group, stat: dict[str, int]) -> float | None:
        if group.version == 2:
            return stat["usage_usec"] / 1e6
        account = self._accounts.get(group.below)
        return None if account is None else int(_text(account / "cpuacct.usage")) / 1e9

    def _levels(self, controller: str) -> list[Group]:
        """The directories of a controller from the process's own group upwards."""
        mounts = _mounts(_text(self._root / f"proc/{self._pid}/mountinfo"))
        where = _paths(_text(self._root / f"proc/{self._pid}/cgroup"))
        for key, version in ((controller, 1), ("", 2)):
            if key not in mounts or key not in where:
                continue
            if version == 2 and not self._offers(mounts[key][1], controller):
                continue
            base, mounted = mounts[key]
            top = self._root / mounted.lstrip("/")
            levels = _upwards(top, _below(base, where[key]))
            return [Group(path, version, str(path.relative_to(top))) for path in levels]
        return []

    def _offers(self, mounted: str, controller: str) -> bool:
        path = self._root / mounted.lstrip("/") / "cgroup.controllers"
        return path.exists() and controller in path.read_text(encoding="utf-8").split()


def _mounts(text: str) -> dict[str, tuple[str, str]]:
    """By controller (empty for version 2): what is mounted, and where."""
    found: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            found.setdefault("", (fields[3], fields[4]))
        elif kind[0] == "cgroup":
            for controller in kind[-1].split(","):
                found.setdefault(controller, (fields[3], fields[4]))
    return found


def _paths(text: str) -> dict[str, str]:
    """By controller (empty for version 2): the process's own group."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _below(base: str, path: str) -> str:
    """The path of a group below what is mounted; inside a container only its own part may be."""
    base = base.rstrip("/")
    return path[len(base) :] if path == base or path.startswith(base + "/") else ""


def _upwards(top: Path, below: str) -> list[Path]:
    path = top / below.strip("/")
    if not path.is_dir():
        return [top]
    levels = [path]
    while levels[-1] != top:
        levels.append(levels[-1].parent)
    return levels


def _has_cpu_limit(group: Group) -> bool:
    return (group.path / ("cpu.max" if group.version == 2 else "cpu.cfs_quota_us")).exists()


def _has_memory_limit(group: Group) -> bool:
    return (group.path / ("memory.max" if group.version == 2 else "memory.limit_in_bytes")).exists()


def _cpu_limit(group: Group) -> float | None:
    if group.version == 2:
        quota, period = _text(group.path / "cpu.max").split()
        return None if quota == "max" else int(quota) / int(period)
    allowed = int(_text(group.path / "cpu.cfs_quota_us"))
    return None if allowed <= 0 else allowed / int(_text(group.path / "cpu.cfs_period_us"))


def _memory_use(group: Group) -> MemoryUse | None:
    if group.version == 2:
        limits = [_text(group.path / name) for name in ("memory.max", "memory.high")]
        limit = min((int(text) for text in limits if text != "max"), default=_NO_LIMIT)
        used, droppable = "memory.current", "inactive_file"
    else:
        limit = int(_text(group.path / "memory.limit_in_bytes"))
        used, droppable = "memory.usage_in_bytes", "total_inactive_file"
    if not 0 < limit < _NO_LIMIT:
        return None
    stat = _table(group.path / "memory.stat")
    return MemoryUse(limit, max(0, int(_text(group.path / used)) - stat.get(droppable, 0)))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ProbeFailed(f"{path} cannot be read: {error.strerror or error}") from error


def _table(path: Path) -> dict[str, int]:
    found = {}
    for line in _text(path).splitlines():
        name, _, value = line.partition(" ")
        found[name] = int(value)
    return found
