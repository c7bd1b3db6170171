"""A policy that thinks elsewhere never holds up the loop."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from headgate.core import commands as c
from headgate.core.lease import Lease
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.core.verify import verify
from headgate.engine.aio import AsyncEngine
from headgate.engine.writer import Writer
from headgate.policy.deciding import PolicyEngine, PolicySettings
from headgate.policy.library import POINTER, VERSIONS, Pointer, Version
from headgate.policy.sources import prepare
from headgate.policy.verdict import HostSettings
from headgate.stores.memory import MemoryStore
from headgate.system import SystemClock
from headgate.testing import SeededChance, job, worker

WITHIN = 30.0
SLOW = "-- policy: slow\nfunction schedule(c) while true do end end"


def version_of(source: str) -> Version:
    made = prepare("lua", source)
    return Version(made.id, made.name, made.version, "lua", source, source, made.sha256, 0)


def lease_of(name: str, state: State) -> Lease | None:
    return state.jobs[name].lease


def submit(*names: str) -> c.Submit:
    return c.Submit(tuple(c.NewJob(name, job(name)) for name in names))


def test_commands_are_answered_while_a_policy_hangs() -> None:
    deciding = PolicyEngine(PolicySettings(host=HostSettings(limit_ms=400), trip_after=100))
    writer = Writer(MemoryStore(), deciding, SeededChance(1), Settings(fixed_busy=0))

    async def main() -> None:
        async with AsyncEngine(writer, SystemClock(), stopwatch=lambda: 0.0) as engine:
            await engine.do(c.RegisterWorker(worker("w", slots=4)))
            version = version_of(SLOW)
            deciding.stage(version)
            await engine.do(c.PutDocument(VERSIONS, version.id, msgspec.msgpack.encode(version)))
            pointer = msgspec.msgpack.encode(Pointer(active=version.id))
            await engine.do(c.PutDocument(POINTER, "pointer", pointer))
            await engine.do(submit("a"))
            answered = 0
            while writer.state.jobs["a"].lease is None:
                await engine.do(c.WorkerBeat("w"))
                answered += 1
            assert answered > 5
            assert deciding.failures["timeout"] >= 1
            engine.read(verify)

    try:
        asyncio.run(main())
    finally:
        deciding.stop()


def test_work_flows_through_the_loop_under_the_platform_policy() -> None:
    deciding = PolicyEngine()
    writer = Writer(MemoryStore(), deciding, SeededChance(1), Settings(fixed_busy=0))

    async def main() -> None:
        async with AsyncEngine(writer, SystemClock(), stopwatch=lambda: 0.0) as engine:
            await engine.do(c.RegisterWorker(worker("w", slots=2)))
            await engine.do(submit(*(f"job-{n}" for n in range(20))))
            for n in range(20):
                lease = await engine.wait_for(partial(lease_of, f"job-{n}"), WITHIN)
                assert lease is not None
                await engine.do(c.Start(lease.id, lease.token))
                await engine.do(c.Complete(lease.id, lease.token))
            engine.read(verify)

    try:
        asyncio.run(main())
    finally:
        deciding.stop()
