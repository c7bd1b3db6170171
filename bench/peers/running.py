"""Runs measures of queues in turn, each in a process and a directory of its own, and keeps what they found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench import disk
from bench.peers.catalogue import KILL, Entry
from bench.peers.installing import ROOT, CannotInstall, Environment
from bench.peers.peer import family, kill
from bench.peers.servers import NoServer, Servers

GAPS, WIDE_GAPS = (0.02, 0.08), (0.05, 1.05)
"""Seconds between two samples of the pick-up; the wide ones for queues that poll."""
LONGEST = 300.0


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    measures: tuple[str, ...]
    jobs: int
    samples: int
    rounds: int
    within: float

    def arguments(self, entry: Entry, measure: str) -> list[str]:
        """The command line of one measure."""
        samples = self.samples // 4 if entry.polls else self.samples
        gaps = [str(gap) for gap in (WIDE_GAPS if entry.polls else GAPS)]
        size = ["--jobs", str(self.jobs), "--samples", str(samples), "--within", str(self.within)]
        return [entry.queue, measure, *size, "--gaps", *gaps]


class Failed(Exception):
    """A measure did not come to its end."""


@dataclass
class Log:
    """Everything a run found out."""

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By name of the entry and of the figure, one for each round."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why an entry, or a measure of it, has no figures."""
    loads: list[float] = field(default_factory=list)
    syncs_ms: list[float] = field(default_factory=list)
    idle_syncs_ms: list[float] = field(default_factory=list)
    """The same after pauses like those between two pick-ups."""

    def look_around(self) -> None:
        """How busy the machine is and how quick the disk, now."""
        self.loads.append(os.getloadavg()[0])
        self.syncs_ms.append(disk.fdatasync_ms(100))
        self.idle_syncs_ms.append(disk.fdatasync_ms(15, pause=0.03))

    def add(self, entry: Entry, found: dict[str, float]) -> None:
        """Figures of one measure."""
        own = self.figures.setdefault(entry.name, {})
        for name, value in found.items():
            own.setdefault(name, []).append(value)

    def skip(self, entry: Entry, measure: str, reason: object) -> None:
        """Say loudly that something is missing."""
        key = f"{entry.name} {measure}".strip()
        self.skipped[key] = str(reason)
        print(f"SKIPPED {entry.title}{f', {measure}' if measure else ''}: {reason}", file=sys.stderr, flush=True)


class Runner:
    """Measures queues."""

    def __init__(self, plan: Plan, environment: Environment, servers: Servers) -> None:
        self._plan = plan
        self._environment = environment
        self._servers = servers
        self.log = Log()

    def run(self, entries: tuple[Entry, ...]) -> Log:
        """Every measure of every queue, as often as there are rounds; neighbours in time are neighbours in a column."""
        able = [entry for entry in entries if self._installed(entry)]
        for number in range(self._plan.rounds):
            for measure in self._plan.measures:
                self.log.look_around()
                for entry in able:
                    if measure in entry.measures and (number == 0 or measure != KILL):
                        self._take(entry, measure)
        self.log.look_around()
        return self.log

    def _installed(self, entry: Entry) -> bool:
        if entry.packages:
            try:
                self._environment.install(entry.packages)
            except CannotInstall as error:
                self.log.skip(entry, "", error)
                return False
        return True

    def _take(self, entry: Entry, measure: str) -> None:
        print(f"{measure}: {entry.title}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
            try:
                with self._servers.fresh(entry.server, Path(directory)) as addresses:
                    self.log.add(entry, self._measure(entry, measure, directory, addresses))
            except (NoServer, Failed) as error:
                self.log.skip(entry, measure, error)

    def _measure(self, entry: Entry, measure: str, directory: str, addresses: dict[str, str]) -> dict[str, float]:
        python = sys.executable if entry.ours else self._environment.python
        own = {"BENCH_DIRECTORY": directory, "BENCH_VARIANT": entry.variant, "BENCH_MARKS": _marks(directory)}
        env = {**os.environ, "PYTHONPATH": str(ROOT), **own, **addresses}
        command = [python, "-m", "bench.peers.measuring", *self._plan.arguments(entry, measure)]
        try:
            return measured(command, env, directory)
        finally:
            Path(_marks(directory)).unlink(missing_ok=True)


def measured(command: list[str], env: dict[str, str], directory: str, longest: float = LONGEST) -> dict[str, float]:
    """The figures that a measure prints; it and its workers are killed if they take too long."""
    with (Path(directory) / "measure.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, env=env, cwd=directory, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603 - ours
        try:
            output, _ = process.communicate(timeout=longest)
        except subprocess.TimeoutExpired:
            kill(family(process.pid))
            process.communicate()
            raise Failed(f"nothing after {longest:g} s") from None
        log.seek(0)
        if process.returncode != 0:
            raise Failed((log.read().strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def _marks(directory: str) -> str:
    """In memory, so that marks cost no disk."""
    return f"/dev/shm/{Path(directory).name}.marks"  # noqa: S108 - the directory's name is unique
