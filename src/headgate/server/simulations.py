"""Simulations of this server: how many at once, how far each is, and what came of it.

The work is done elsewhere (a `Simulator` is handed in); here is only what is kept of it. Nothing in here waits for a
simulation while a command waits for the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from headgate.core.errors import HeadgateError, NotFound, Refused
from headgate.server.playing import Player
from headgate.server.problems import Unavailable, problem_of
from headgate.server.settings import ServerSettings
from headgate.wire.http import Problem
from headgate.wire.simulating import ChangesIn, OutcomeOut, RunOut, SimulateIn, read_outcome

TOPIC = "sim:"
KEPT = 16
"""Simulations that are remembered; the oldest that has ended goes first."""
Topics = dict[str, Any]


class SimulationNotFound(NotFound):
    """There is no such simulation, or it is no longer kept."""


class TooManySimulations(Refused):
    """As many simulations run as may run at once."""


class Side(NamedTuple):
    """One world: the policy's name, its Lua unless it comes with Headgate, and what is different."""

    policy: str
    lua: str | None
    changes: ChangesIn


class Simulator(Protocol):
    """Carries out simulations without holding up the loop."""

    async def simulate(
        self, asked: SimulateIn, sides: Sequence[Side], hear: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        """Tells `ready`, then frames and progress; returns the outcome. What is wrong is raised. May be cancelled."""
        ...


class Run:
    """One simulation."""

    def __init__(self, id_: str, who: str, at: int, asked: SimulateIn, sides: Sequence[Side]) -> None:
        self.id, self.who, self.created_at = id_, who, at
        self.state = "starting"
        self.workload = str(asked.workload.__struct_config__.tag)
        self.policies = [side.policy for side in sides]
        self.progress = 0.0
        self.jobs = 0
        self.until: int | None = None
        self.player = Player()
        self.problem: Problem | None = None
        self.outcome: OutcomeOut | None = None
        self.changed = True
        """Whether watchers have not been told yet how it stands."""
        self.ready = asyncio.Event()
        self.over = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.error: HeadgateError | None = None

    @property
    def topic(self) -> str:
        """Where the live feed tells of it."""
        return TOPIC + self.id

    def hear(self, message: dict[str, Any]) -> None:
        """Take in what the simulation says."""
        match message["type"]:
            case "ready":
                self.state, self.jobs, self.policies = "running", message["jobs"], message["policies"]
                self.until = message["until"]
                self.player.start(message["begin"], message["tick"])
                self.ready.set()
            case "frame":
                self.player.frames.append({name: message[name] for name in ("number", "at", "seen")})
            case "progress":
                self.progress = message["done"]
        self.changed = True

    def end(self, state: str, error: HeadgateError | None = None) -> None:
        """It is over."""
        self.state, self.error, self.changed = state, error, True
        self.problem = None if error is None else problem_of(error)
        self.progress = 1.0 if state == "done" else self.progress
        self.ready.set()
        self.over.set()

    def shown(self, *, whole: bool = False) -> RunOut:
        """How it stands."""
        player = self.player
        until = None if self.until is None else self.until * player.tick
        return RunOut(
            self.id, self.state, self.who, self.created_at / 1000, self.workload, self.policies, self.progress,
            player.status(), self.topic, len(player.frames), self.jobs, player.begin * player.tick, until,
            self.problem, self.outcome if whole else None,
        )  # fmt: skip


class Simulations:
    """All simulations of a server."""

    def __init__(self, settings: ServerSettings, simulator: Simulator | None) -> None:
        self._settings = settings
        self._simulator = simulator
        self._runs: dict[str, Run] = {}

    async def start(self, run: Run, asked: SimulateIn, sides: Sequence[Side]) -> None:
        """Begin; returns when the order is understood, and raises what is wrong with it."""
        simulator = self._simulator
        if simulator is None:
            raise Unavailable("this server runs without a simulator")
        running = sum(not other.over.is_set() for other in self._runs.values())
        if running >= self._settings.simulations:
            raise TooManySimulations(f"{running} simulations run already, and no more at once", retry_after=5_000)
        self._runs[run.id] = run
        self._forget()
        run.task = asyncio.create_task(self._carry_out(simulator, run, asked, sides), name="headgate-simulation")
        await run.ready.wait()
        if run.error is not None:
            del self._runs[run.id]
            raise run.error

    async def _carry_out(self, simulator: Simulator, run: Run, asked: SimulateIn, sides: Sequence[Side]) -> None:
        try:
            run.outcome = read_outcome(await simulator.simulate(asked, sides, run.hear))
            run.end("done")
        except asyncio.CancelledError:
            run.end("cancelled")
            raise
        except HeadgateError as error:
            run.end("failed", error)

    def _forget(self) -> None:
        over = [run.id for run in self._runs.values() if run.over.is_set()]
        for run_id in over[: max(0, len(self._runs) - KEPT)]:
            del self._runs[run_id]

    def get(self, run_id: str) -> Run:
        """One simulation."""
        run = self._runs.get(run_id)
        if run is None:
            raise SimulationNotFound(f"there is no simulation {run_id!r}")
        return run

    def all(self) -> list[Run]:
        """All that are remembered, newest first."""
        return list(reversed(self._runs.values()))

    async def cancel(self, run: Run) -> None:
        """End it now; one that has ended stays as it is."""
        if run.task is not None and not run.task.done():
            run.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run.task

    async def stop(self) -> None:
        """End all."""
        for run in list(self._runs.values()):
            await self.cancel(run)

    # -- for those who watch ------------------------------------------------------------------------------------

    def news(self, wanted: set[str], now: float) -> Topics:
        """What is new of the simulations that somebody watches, by topic."""
        topics: Topics = {}
        for run in self._runs.values():
            if run.topic not in wanted:
                continue
            frames = run.player.due(now)
            if frames or run.changed or run.player.moved:
                run.changed = run.player.moved = False
                topics[run.topic] = {"run": msgspec.to_builtins(run.shown()), "frames": frames}
        return topics

    def snapshot(self, topics: Sequence[str]) -> Topics:
        """How the simulations among the topics stand, with the frame shown last."""
        found: Topics = {}
        for run in self._runs.values():
            if run.topic in topics:
                last = run.player.last
                found[run.topic] = {"run": msgspec.to_builtins(run.shown()), "frames": [last] if last else []}
        return found
