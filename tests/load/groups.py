"""Control groups of the tests' own: small ones, in which a process can be loaded whatever its neighbours do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

CPU = 0.2
"""Cores that a process in a group may use: little enough to be had on any machine."""
MEMORY = 256 << 20
_PERIOD = 100_000


def own_groups() -> dict[str, Path]:
    """The folders of the groups that this process is in, by controller; `unified` for version 2."""
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields, kind = line.partition(" - ")[0].split(), line.partition(" - ")[2].split()
        if kind[0] == "cgroup2":
            mounts["unified"] = Path(fields[4])
        elif kind[0] == "cgroup":
            mounts.update(dict.fromkeys(kind[-1].split(","), Path(fields[4])))
    found: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(",") if names else ["unified"]:
            if name in mounts and (mounts[name] / path.strip("/")).is_dir():
                found[name] = mounts[name] / path.strip("/")
    return found


@contextlib.contextmanager
def limited(what: str) -> Iterator[list[Path]]:
    """Groups below our own, limited in `cpu` or `memory`; gone at the end. Skips where the machine does not let us."""
    made: list[Path] = []
    try:
        _make(what, own_groups(), made)
    except (OSError, KeyError) as error:
        _remove(made)
        pytest.skip(f"REAL LOAD NOT TESTED: this machine does not let us limit the {what} of a group ({error})")
    try:
        yield made
    finally:
        _remove(made)


def _make(what: str, own: dict[str, Path], made: list[Path]) -> None:
    second = what not in own
    names = ["unified"] if second else {"cpu": ["cpu", "cpuacct"], "memory": ["memory"]}[what]
    for parent in dict.fromkeys(own[name] for name in names):
        group = parent / f"headgate-test-{what}-{os.getpid()}"
        group.mkdir()
        made.append(group)
    if what == "memory":
        _write(made[0] / ("memory.max" if second else "memory.limit_in_bytes"), MEMORY)
        return
    quota = round(CPU * _PERIOD)
    _write(made[0] / ("cpu.max" if second else "cpu.cfs_quota_us"), f"{quota} {_PERIOD}" if second else quota)
    with contextlib.suppress(OSError):  # it shall have its little share however busy the neighbours are
        _write(made[0] / ("cpu.weight" if second else "cpu.shares"), 10_000 if second else 262_144)


def _write(path: Path, value: object) -> None:
    path.write_text(str(value), encoding="ascii")


def _remove(groups: list[Path]) -> None:
    for group in groups:
        group.rmdir()


def enter(groups: list[Path], pid: int) -> None:
    """Put a process into the groups."""
    for group in groups:
        _write(group / "cgroup.procs", pid)
