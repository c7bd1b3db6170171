"""Starting simulations in processes of their own, from a loop that has other things to do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any, cast

import msgspec

from headgate.core.errors import HeadgateError, InvalidInput
from headgate.sim.child import LENGTH
from headgate.sim.orders import Order
from headgate.sim.workloads.model import WorkloadError

_PIECE = 500
"""Jobs encoded at once: a few hundred microseconds of the loop."""
_SPARE, _SPARE_S = 1.2, 10.0
"""What is left to a simulation that is cut, for the decision it is at and for summing up: a fifth more, and seconds."""
_MODULE = "headgate.sim.child"
_encode = msgspec.msgpack.Encoder().encode
Hear = Callable[[dict[str, Any]], None]


class SimulationFailed(InvalidInput):
    """The process of a simulation ended without an outcome: what it was given cannot be simulated."""


class SimulationTooLong(SimulationFailed):
    """The simulation took longer than it may."""


async def simulate(order: Order, hear: Hear, *, limit_s: float = 300.0, memory: int = 4 << 30) -> dict[str, Any]:
    """Carry out an order elsewhere; `hear` is told `ready`, then frames and progress. Returns the outcome.

    What is wrong with the order is raised as it would be here. Cancelling ends the process. After `limit_s` seconds the
    simulation is cut, and the outcome says so; a process that does not even manage that is ended a while later.
    """
    order = msgspec.structs.replace(order, limit_s=limit_s)
    longest = limit_s * _SPARE + _SPARE_S
    process = await _start(memory)
    try:
        async with asyncio.timeout(longest):
            sending = asyncio.create_task(_send(process, order))
            try:
                return await _listen(process, hear)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await sending
    except TimeoutError:
        raise SimulationTooLong(f"the simulation was ended after {longest:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _start(memory: int) -> asyncio.subprocess.Process:
    paths = os.pathsep.join(path for path in sys.path if path)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", _MODULE, str(memory), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": paths, "PYTHONHASHSEED": "0"}, cwd="/", start_new_session=True,
    )  # fmt: skip


async def _send(process: asyncio.subprocess.Process, order: Order) -> None:
    """The order without its jobs, then these in pieces, so that the loop is never held up for long."""
    stdin = cast("asyncio.StreamWriter", process.stdin)
    jobs = () if order.fork is None else order.fork.jobs
    if order.fork is not None:
        order = msgspec.structs.replace(order, fork=msgspec.structs.replace(order.fork, jobs=()))
    pieces = (_encode(jobs[start : start + _PIECE]) for start in range(0, len(jobs), _PIECE))
    for data in (_encode(order), *pieces, b""):
        stdin.write(LENGTH.pack(len(data)) + data)
        await stdin.drain()
        await asyncio.sleep(0)


async def _listen(process: asyncio.subprocess.Process, hear: Hear) -> dict[str, Any]:
    stdout = cast("asyncio.StreamReader", process.stdout)
    while True:
        try:
            head = await stdout.readexactly(LENGTH.size)
            message: dict[str, Any] = msgspec.json.decode(await stdout.readexactly(LENGTH.unpack(head)[0]))
        except asyncio.IncompleteReadError:
            code = await process.wait()
            raise SimulationFailed(f"the simulation ended without an outcome (exit code {code})") from None
        match message["type"]:
            case "done":
                outcome: dict[str, Any] = message["outcome"]
                return outcome
            case "refused":
                raise refusal(message)
        hear(message)


_KINDS = {kind.code: kind for kind in (InvalidInput, WorkloadError)}


def refusal(message: dict[str, Any]) -> HeadgateError:
    """What the process said, as the error it was there."""
    details = dict(message["details"])
    kind = _KINDS.get(message["code"], SimulationFailed)
    text, field = str(message["message"]), details.get("field")
    return kind(text.removeprefix(f"{field}: "), **details)
