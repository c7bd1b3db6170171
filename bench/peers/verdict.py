"""From figures to the tables and goals that are printed: medians of rounds, ratios inside one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.peers.catalogue import ENTRIES, LIVES, Entry
from bench.peers.running import Log
from bench.report import Goal, Table, at_least, at_most

TTL_SECONDS = 30
"""Of a lease, as the service sets it when nobody says otherwise."""


@dataclass(frozen=True)
class Check:
    """A goal with the ratio it is about."""

    label: str
    value: float
    goal: Goal


class Verdict:
    """The medians of a run."""

    def __init__(self, log: Log, entries: Sequence[Entry] = ENTRIES) -> None:
        self._log = log
        self._entries = entries

    def figure(self, name: str, figure: str) -> float | None:
        """The median of a figure's rounds, if it was measured."""
        rounds = self._log.figures.get(name, {}).get(figure)
        return median(rounds) if rounds else None

    @property
    def sync_ms(self) -> float:
        """The disk in this run."""
        return median(self._log.syncs_ms)

    # -- tables ---------------------------------------------------------------------------------------------------

    def speed(self) -> Table:
        """One row for each queue."""
        columns = ["submit/s", "bulk/s", "drain/s", "pick-up p50 ms", "p99 ms", f"{LIVES}/s, 64 clients"]
        table = Table("Jobs that do nothing, two worker processes", columns)
        self._fill(table, ("submit", "bulk", "drain", "p50_ms", "p99_ms", "lives"))
        return table

    def kills(self) -> Table:
        """What became of running jobs when all workers were killed."""
        columns = ["running", "rerun after s", "not rerun", "finished twice"]
        table = Table("All workers killed with -9 in mid-job, then fresh ones", columns)
        self._fill(table, ("struck", "rerun_s", "not_rerun", "finished_twice"))
        return table

    def goals(self) -> Table:
        """Each goal whose two sides were measured."""
        table = Table("Goals, as ratios inside this run", ["ratio"])
        for check in self.checks():
            table.add(check.label, check.value, goals=[check.goal])
        return table

    def _fill(self, table: Table, names: tuple[str, ...]) -> None:
        """A row for each queue that has one of the figures."""
        for entry in self._entries:
            cells = [self.figure(entry.name, name) for name in names]
            if any(cell is not None for cell in cells):
                table.add(entry.title, *("-" if cell is None else cell for cell in cells))

    # -- goals ----------------------------------------------------------------------------------------------------

    def checks(self) -> Iterator[Check]:
        """All goals that this run can judge."""
        for home in ("file", "http"):
            yield from self._drains(home)
        for home in ("file", "http"):
            yield from self._pick_ups(home)
        yield from self._lives()
        yield from self._kills()

    def _drains(self, home: str) -> Iterator[Check]:
        many, one = f"headgate-{home}-128", f"headgate-{home}-0"
        others = self._best("drain", [entry for entry in self._peers() if entry.queue != "pgqueuer"])
        yield from self._ratio("drain", many, self._best("drain", self._queue("pgqueuer")), 2)
        yield from self._ratio("drain", many, others, 8)
        for queue in ("taskiq", "huey"):
            yield from self._ratio("drain", one, self._best("drain", self._queue(queue)), 1)

    def _pick_ups(self, home: str) -> Iterator[Check]:
        ours = self.figure(f"headgate-{home}-0", "p50_ms")
        if ours is None:
            return
        label = f"pick-up p50, headgate-{home}-0 / "
        yield Check(f"{label}fdatasync p50", ours / self.sync_ms, at_most(ours / self.sync_ms, 6))
        durable = [(self.figure(entry.name, "p50_ms"), entry.name) for entry in self._peers() if entry.durable]
        found = min(((value, name) for value, name in durable if value is not None), default=None)
        if found is not None:
            yield Check(f"{label}{found[1]}", ours / found[0], at_most(ours / found[0], 0.8))

    def _lives(self) -> Iterator[Check]:
        for queue, wanted in (("procrastinate", 10), ("pgqueuer", 2)):
            yield from self._ratio("lives", "headgate-postgres-128", self._best("lives", self._queue(queue)), wanted)

    def _kills(self) -> Iterator[Check]:
        for name in ("headgate-file-0", "headgate-http-0"):
            lost = self.figure(name, "not_rerun")
            if lost is not None:
                yield Check(f"killed jobs that never ran again, {name}", lost, at_most(lost, 0))
            if (after := self.figure(name, "rerun_s")) is not None:
                yield Check(f"seconds until all ran again, {name}", after, at_most(after, TTL_SECONDS + 5, " s"))

    def _ratio(self, figure: str, ours: str, other: tuple[float, str] | None, wanted: float) -> Iterator[Check]:
        value = self.figure(ours, figure)
        if value is not None and other is not None:
            ratio = value / other[0]
            yield Check(f"{figure}, {ours} / {other[1]}", ratio, at_least(ratio, wanted))

    def _best(self, figure: str, entries: list[Entry]) -> tuple[float, str] | None:
        found = [(self.figure(entry.name, figure), entry.name) for entry in entries]
        return max(((value, name) for value, name in found if value is not None), default=None)

    def _peers(self) -> list[Entry]:
        return [entry for entry in self._entries if not entry.ours]

    def _queue(self, queue: str) -> list[Entry]:
        return [entry for entry in self._entries if entry.queue == queue]
