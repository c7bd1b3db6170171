"""The server that `bench_http` measures: the real one, on a SQLite file, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from time import perf_counter

import uvloop

from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.engine.aio import AsyncEngine
from headgate.engine.writer import Writer
from headgate.server.app import make_app
from headgate.server.serving import Serving
from headgate.server.settings import ServerSettings
from headgate.stores.sqlite import SqliteStore
from headgate.system import SystemChance, SystemClock, SystemIds, spare_the_collector


async def serve(directory: Path) -> None:
    """Serve until a signal comes."""
    clock, chance, enough = SystemClock(), SystemChance(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, enough.set)
    store = SqliteStore(str(directory / "bench.db"))
    writer = Writer(store, FirstFit(), chance, Settings(fixed_busy=0, total_units=1_000_000))
    async with AsyncEngine(writer, clock, stopwatch=perf_counter) as engine:
        settings = ServerSettings(port=0, token_file=str(directory / "token"))
        async with Serving(make_app(engine, None, settings, ids=SystemIds(clock, chance))) as serving:
            spare_the_collector()
            print(json.dumps({"port": serving.port, "token": serving.token}), flush=True)
            await enough.wait()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
