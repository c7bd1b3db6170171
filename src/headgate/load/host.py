"""Probes of the machine: CPU, memory, disks, network. Where a container has limits, those count."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import psutil

from headgate.load.cgroup import Cgroup, CpuUse
from headgate.load.probe import ProbeFailed
from headgate.ports import Clock

_SHORTEST = 0.02
"""Seconds below which the difference of two counters says nothing."""


class CpuProbe:
    """The share of the CPU time that was used since the last reading.

    Under a limit it is the container's own use against its limit, or the share of the periods in which it was held
    back, whichever is more. Without one it is the use of the cores that this process may run on.
    """

    name = "cpu"
    signals = ("cpu",)

    def __init__(self, clock: Clock, cgroup: Cgroup) -> None:
        self._clock = clock
        self._cgroup = cgroup
        self._before = self._times()
        self._limited, self._at = cgroup.cpu(), clock.now()

    def read(self) -> Mapping[str, float]:
        """Use since the last reading."""
        now, limited = self._clock.now(), self._cgroup.cpu()
        before, self._limited = self._limited, limited
        passed, self._at = (now - self._at) / 1000, now
        host = self._host()
        if limited is None or before is None:
            return {"cpu": host}
        return {"cpu": _under_limit(before, limited, passed)}

    def _host(self) -> float:
        busy, idle = self._times()
        was_busy, was_idle = self._before
        self._before = (busy, idle)
        whole = busy - was_busy + idle - was_idle
        if whole < _SHORTEST:
            raise ProbeFailed("no time has passed since the last reading")
        return min(1.0, max(0.0, (busy - was_busy) / whole))

    @staticmethod
    def _times() -> tuple[float, float]:
        """Seconds that the cores we may run on have worked, and have not."""
        mine = os.sched_getaffinity(0)
        busy = idle = 0.0
        for number, core in enumerate(psutil.cpu_times(percpu=True)):
            if number in mine:
                rest = core.idle + getattr(core, "iowait", 0.0)
                idle += rest
                # Guest time is part of user time.
                busy += sum(core) - rest - getattr(core, "guest", 0.0) - getattr(core, "guest_nice", 0.0)
        return busy, idle


def _under_limit(before: CpuUse, after: CpuUse, passed: float) -> float:
    if passed < _SHORTEST:
        raise ProbeFailed("no time has passed since the last reading")
    periods = after.periods - before.periods
    held_back = (after.throttled - before.throttled) / periods if periods > 0 else 0.0
    used = 0.0
    if after.used is not None and before.used is not None:
        used = (after.used - before.used) / (passed * after.cpus)
    return max(0.0, used, held_back)


class MemoryState(NamedTuple):
    """Memory in bytes: `total` is the container's limit where that is what binds."""

    total: int
    available: int

    @property
    def used_share(self) -> float:
        """How full it is, 0..1."""
        return 1.0 - self.available / self.total


def memory_state(cgroup: Cgroup) -> MemoryState:
    """The memory of the machine or of the container, whichever is fuller. `available`, not `free`: caches can go."""
    memory = psutil.virtual_memory()
    host = MemoryState(memory.total, memory.available)
    limited = cgroup.memory()
    if limited is None or limited.limit >= memory.total:
        return host
    available = min(memory.available, max(0, limited.limit - limited.used))
    container = MemoryState(limited.limit, available)
    return max(host, container, key=lambda state: state.used_share)


class MemoryProbe:
    """How full the memory is."""

    name = "memory"
    signals = ("memory",)

    def __init__(self, cgroup: Cgroup) -> None:
        self._cgroup = cgroup

    def read(self) -> Mapping[str, float]:
        """The share that is used."""
        return {"memory": memory_state(self._cgroup).used_share}


class DiskProbe:
    """How full a file system is: by bytes or by files, whichever is more."""

    name = "disk"
    signals = ("disk",)

    def __init__(self, path: str = "/") -> None:
        self._path = path

    def read(self) -> Mapping[str, float]:
        """The share that is used, of what an ordinary user may use."""
        stat = os.statvfs(self._path)
        shares = [_used(stat.f_blocks - stat.f_bfree, stat.f_bavail), _used(stat.f_files - stat.f_ffree, stat.f_favail)]
        return {"disk": max(shares)}


def _used(used: int, available: int) -> float:
    return used / (used + available) if used + available > 0 else 0.0


class DiskIoProbe:
    """The share of the time in which the busiest disk had something to do."""

    name = "disk_io"
    signals = ("disk_io",)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before, self._at = _disk_times(), clock.now()

    def read(self) -> Mapping[str, float]:
        """Since the last reading."""
        now, times = self._clock.now(), _disk_times()
        passed, before = now - self._at, self._before
        self._at, self._before = now, times
        if passed < _SHORTEST * 1000:
            raise ProbeFailed("no time has passed since the last reading")
        if not times:
            raise ProbeFailed("the machine shows no disks any more")
        return {"disk_io": max(max(0, busy - before.get(name, busy)) / passed for name, busy in times.items())}


def _disk_times() -> dict[str, int]:
    disks = psutil.disk_io_counters(perdisk=True) or {}
    return {name: disk.busy_time for name, disk in disks.items() if not name.startswith(("loop", "ram", "zram"))}


class NetworkProbe:
    """The use of the fullest network link whose speed is known."""

    name = "network"
    signals = ("network",)

    def __init__(self, clock: Clock, links: Sequence[str] | None = None) -> None:
        self._clock = clock
        self._links = tuple(links if links is not None else known_links())
        self._before, self._at = _bytes(), clock.now()

    def read(self) -> Mapping[str, float]:
        """Bytes in or out since the last reading, against the speed of the link."""
        now, counted = self._clock.now(), _bytes()
        passed, before = (now - self._at) / 1000, self._before
        self._at, self._before = now, counted
        if passed < _SHORTEST:
            raise ProbeFailed("no time has passed since the last reading")
        speeds = known_links()
        links = [name for name in self._links if name in counted and name in before and name in speeds]
        if not links:
            raise ProbeFailed(f"none of the links {', '.join(self._links)} is up")
        return {"network": max(_rate(before[name], counted[name]) / passed / speeds[name] for name in links)}


def known_links() -> dict[str, float]:
    """Links that are up and say how fast they are, in bytes a second."""
    stats = psutil.net_if_stats()
    return {name: link.speed * 125_000.0 for name, link in stats.items() if link.isup and link.speed > 0}


def _bytes() -> dict[str, tuple[int, int]]:
    return {name: (link.bytes_recv, link.bytes_sent) for name, link in psutil.net_io_counters(pernic=True).items()}


def _rate(before: tuple[int, int], after: tuple[int, int]) -> int:
    return max(0, after[0] - before[0], after[1] - before[1])
