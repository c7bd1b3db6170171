"""Linux PSI: the share of the time in which something had to wait for CPU, memory or disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.load.cgroup import Cgroup
from headgate.load.probe import ProbeFailed
from headgate.ports import Clock

KINDS = ("cpu", "memory", "io")
_SHORTEST = 20
"""Milliseconds below which the kernel's own average of ten seconds is taken instead."""


def pressure_files(cgroup: Cgroup, root: Path = Path("/")) -> dict[str, Path]:
    """The pressure files there are: those of the container where it has limits, else those of the machine."""
    files = {kind: cgroup.pressure_file(kind) or root / "proc/pressure" / kind for kind in KINDS}
    return {kind: path for kind, path in files.items() if _readable(path)}


def _readable(path: Path) -> bool:
    """The file may be there and yet refuse to be read, where the kernel was started without it."""
    try:
        path.read_text(encoding="ascii")
    except OSError:
        return False
    return True


class PressureProbe:
    """Pressure of each kind since the last reading."""

    name = "pressure"

    def __init__(self, clock: Clock, files: Mapping[str, Path]) -> None:
        self._clock = clock
        self._files = dict(files)
        self.signals = tuple(f"pressure_{kind}" for kind in self._files)
        self._at = clock.now()
        self._before = {kind: _some(path)[1] for kind, path in self._files.items()}

    def read(self) -> Mapping[str, float]:
        """Shares 0..1."""
        now = self._clock.now()
        passed, self._at = now - self._at, now
        return {f"pressure_{kind}": self._share(kind, path, passed) for kind, path in self._files.items()}

    def _share(self, kind: str, path: Path, passed: int) -> float:
        average, total = _some(path)
        before, self._before[kind] = self._before[kind], total
        if passed < _SHORTEST:
            return average / 100
        return min(1.0, max(0.0, (total - before) / (passed * 1000)))


def _some(path: Path) -> tuple[float, int]:
    """The average of ten seconds in per cent, and the total in microseconds."""
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            kind, *fields = line.split()
            if kind == "some":
                values = dict(field.split("=") for field in fields)
                return float(values["avg10"]), int(values["total"])
    except OSError as error:
        raise ProbeFailed(f"{path} cannot be read: {error.strerror or error}") from error
    except (KeyError, ValueError) as error:
        raise ProbeFailed(f"{path} is not as expected: {error}") from error
    raise ProbeFailed(f"{path} has no line 'some'")
