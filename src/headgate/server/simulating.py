"""Calls that simulate policies: on a sample, on the live state, on an uploaded workload."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.policy.template_library import templates
from headgate.server import strict
from headgate.server.routing import Call, Reply, Routes
from headgate.server.service import Service
from headgate.server.simulations import Run, Side
from headgate.wire import simulating as w
from headgate.wire.http import Problem

routes = Routes()
BASE = "/v2/admin/scheduler/simulate"
RUN = BASE + "/runs/{id}"
NATIVE = ("native:first-fit", "native:fcfs")


class DryRunQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy by its name, and the sample to run it on."""

    policy: str = "active"
    against: str | None = None
    model: str = "lublin"
    jobs: Annotated[int, Meta(ge=1, le=2_000)] = 200


class WaitQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait for the end."""

    wait_s: Annotated[float, Meta(ge=0, le=3_600)] = 0.0


class FramesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which frames."""

    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200


@routes.add(
    "GET", BASE, "policy:edit", query=DryRunQuery, replies={200: w.RunOut, 404: Problem, 429: Problem}, tenants=False
)
async def dry_run(service: Service, call: Call) -> Reply:
    """A dry run of a policy by its name on a sample workload; answers when it is done."""
    asked: DryRunQuery = call.query
    against = None if asked.against is None else w.PolicyIn(asked.against)
    sample = w.SampleIn(asked.model, asked.jobs)
    run = await _start(service, call, w.SimulateIn(w.PolicyIn(asked.policy), against, sample))
    await _wait(call, run, service.settings.max_wait)
    return Reply(run.shown(whole=True))


@routes.add("POST", BASE, "policy:edit", body=w.SimulateIn, replies={201: w.RunOut}, audit=True, tenants=False)
async def simulate(service: Service, call: Call) -> Reply:
    """A dry run on a sample, live or uploaded workload; answers when it has begun."""
    run = await _start(service, call, strict.read_as(call.body, w.SimulateIn))
    return Reply(run.shown(whole=True), 201)


@routes.add("GET", f"{BASE}/runs", "policy:edit", replies={200: w.RunsOut}, tenants=False)
async def list_simulations(service: Service, call: Call) -> Reply:
    """Simulations of late, newest first, and the limits on them."""
    settings, found = service.settings, service.simulations.all()
    limits = (settings.simulations, settings.simulation_jobs, settings.simulation_time)
    return Reply(w.RunsOut([run.shown() for run in found], *limits))


@routes.add("GET", RUN, "policy:edit", query=WaitQuery, replies={200: w.RunOut}, tenants=False)
async def get_simulation(service: Service, call: Call) -> Reply:
    """One simulation with its outcome; waits for its end if asked to."""
    run = service.simulations.get(call["id"])
    if call.query.wait_s:
        await _wait(call, run, min(call.query.wait_s, service.settings.max_wait))
    return Reply(run.shown(whole=True))


@routes.add("GET", f"{RUN}/frames", "policy:edit", query=FramesQuery, replies={200: w.FramesOut}, tenants=False)
async def get_frames(service: Service, call: Call) -> Reply:
    """Frames of a simulation, in order."""
    frames = service.simulations.get(call["id"]).player.frames
    asked: FramesQuery = call.query
    return Reply(w.FramesOut([msgspec.convert(f, w.FrameOut) for f in frames[asked.after : asked.after + asked.limit]]))


@routes.add("POST", f"{RUN}/playback", "policy:edit", body=w.PlaybackIn, replies={200: w.PlaybackOut}, tenants=False)
async def control_playback(service: Service, call: Call) -> Reply:
    """Pause, go on, step, jump or change the pace of what the live feed shows of a simulation."""
    run = service.simulations.get(call["id"])
    run.player.control(strict.read_as(call.body, w.PlaybackIn))
    return Reply(run.player.status())


@routes.add("POST", f"{RUN}/cancel", "policy:edit", replies={200: w.RunOut}, audit=True, tenants=False)
async def cancel_simulation(service: Service, call: Call) -> Reply:
    """End a simulation; one that has ended stays as it is."""
    run = service.simulations.get(call["id"])
    await service.simulations.cancel(run)
    return Reply(run.shown(whole=True))


async def _start(service: Service, call: Call, asked: w.SimulateIn) -> Run:
    sides = [Side(*await _policy(service, asked.policy), asked.changes)]
    against = asked.against
    if against is None and isinstance(asked.workload, w.LiveIn):
        against = w.PolicyIn()
    if against is not None:
        sides.insert(0, Side(*await _policy(service, against), w.ChangesIn()))
    run = Run(service.ids.new(), call.caller.name, service.now(), asked, sides)
    call.waited = True
    await service.simulations.start(run, asked, sides)
    return run


async def _policy(service: Service, asked: w.PolicyIn) -> tuple[str, str | None]:
    """The name of a policy, and its Lua unless it comes with Headgate."""
    policies = service.policies
    if asked.source is not None:
        draft = await asyncio.to_thread(policies.draft, asked.language, asked.source, asked.name)
        return draft.name, draft.lua
    name = asked.name
    if name == "active":
        pointer = await asyncio.to_thread(policies.library.pointer)
        name = pointer.deciding or "platform"
    if name == "platform" or name in NATIVE or name in {template.name for template in templates()}:
        return name, None
    version = await asyncio.to_thread(policies.library.get, name)
    return version.id, version.lua


async def _wait(call: Call, run: Run, seconds: float) -> None:
    """Until the simulation or the time is over."""
    call.waited = True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await run.over.wait()
