"""A look at this machine without a server."""

from __future__ import annotations

from typing import Any

from headgate.bootstrap.engine import start_engine
from headgate.bootstrap.load import host_sampler
from headgate.bootstrap.machine import pause
from headgate.engine.questions import GetStatus
from headgate.load.sampler import WARM_UP
from headgate.stores.memory import MemoryStore


def measure_here() -> dict[str, Any]:
    """The rating of this machine with its signals, as a server here would have it."""
    engine = start_engine(MemoryStore())
    sampler = host_sampler(engine, engine.writer.settings, engine.clock, applications=False)
    try:
        sampler.sample()
        pause(WARM_UP / 1000)  # most signals are rates: they need two readings
        sampler.hand_in(engine)
        status = engine.ask(GetStatus())
    finally:
        sampler.stop()
        engine.stop()
    return {"busy": status.busy, "signals": status.signals, "reasons": list(status.reasons)}
