"""PgQueuer on Postgres: two worker processes that fetch and finish in batches of 500."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.peer import TEXT, AsyncPeer, parts, program, setting, work_async

BATCH = 500


def packed(number: int, text: str) -> bytes:
    return f"{number} {text}".encode()


@asynccontextmanager
async def worker() -> AsyncIterator[PgQueuer]:
    """What `pgq run` starts."""
    connection = await asyncpg.connect(setting("postgres"))
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("job")
    async def job(job: Job) -> None:
        number, _, text = (job.payload or b"").decode().partition(" ")
        await work_async(int(number), text)

    yield queue
    await connection.close()


class Queue(AsyncPeer):
    has_bulk = True

    @staticmethod
    def loop_factory() -> Any:
        return uvloop.new_event_loop

    def open(self) -> None:
        async def connect() -> None:
            self._connection = await asyncpg.connect(setting("postgres"))
            self._queries = Queries(AsyncpgDriver(self._connection))
            await self._queries.install()

        self.run(connect())

    async def send(self, number: int, text: str) -> None:
        await self._queries.enqueue("job", packed(number, text))

    def bulk(self, numbers: Sequence[int], text: str) -> None:
        async def in_batches() -> None:
            for part in parts(numbers):
                payloads = [packed(number, text) for number in part]
                await self._queries.enqueue(["job"] * len(part), payloads, [0] * len(part))

        self.run(in_batches())

    def settle(self) -> None:
        self.run(self._connection.execute("VACUUM ANALYZE"))

    def lives(self, clients: int, each: int) -> float:
        return self.run(lives(clients, each))

    def commands(self) -> list[list[str]]:
        return [[program("pgq"), "run", f"{__name__}:worker", "--batch-size", str(BATCH)]] * 2

    def close(self) -> None:
        self.run(self._connection.close())
        super().close()


async def lives(clients: int, each: int) -> float:
    """Clients and a worker on one event loop, with connections of their own."""
    running: dict[int, asyncio.Event] = {}
    connection = await asyncpg.connect(setting("postgres"))
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("tell")
    async def tell(job: Job) -> None:
        running[int((job.payload or b"").partition(b" ")[0])].set()

    async with asyncpg.create_pool(setting("postgres"), min_size=8, max_size=16) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))

        async def client(own: int) -> None:
            for _ in range(each):
                running[own] = asyncio.Event()
                await queries.enqueue("tell", packed(own, TEXT))
                await running[own].wait()

        working = asyncio.create_task(queue.run(batch_size=clients))
        await client(0)
        began = time.monotonic()
        await asyncio.gather(*map(client, range(clients)))
        took = time.monotonic() - began
        queue.shutdown.set()
        await working
    await connection.close()
    return clients * each / took
