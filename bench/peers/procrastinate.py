"""Procrastinate on Postgres: two workers of ten jobs at once; finished jobs are deleted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import psycopg
from procrastinate import App, PsycopgConnector

from bench.peers.peer import AsyncPeer, parts, program, setting, work_async

CONNECTIONS = 14
app = App(connector=PsycopgConnector(conninfo=setting("postgres"), min_size=2, max_size=CONNECTIONS))
running: dict[int, asyncio.Event] = {}
"""Of clients in this process that wait for their job to have run."""


@app.task(name="job")
async def job(number: int, text: str) -> None:
    await work_async(number, text)


@app.task(name="tell")
async def tell(number: int, text: str) -> None:  # noqa: ARG001 - the payload travels along
    running[number].set()


class Queue(AsyncPeer):
    has_bulk = True

    def open(self) -> None:
        async def connect() -> None:
            await app.open_async()
            await app.schema_manager.apply_schema_async()

        self.run(connect())

    async def send(self, number: int, text: str) -> None:
        await job.defer_async(number=number, text=text)

    def bulk(self, numbers: Sequence[int], text: str) -> None:
        async def in_batches() -> None:
            for part in parts(numbers):
                await job.batch_defer_async(*({"number": number, "text": text} for number in part))

        self.run(in_batches())

    def settle(self) -> None:
        with psycopg.connect(setting("postgres"), autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    def lives(self, clients: int, each: int) -> float:
        return self.run(lives(clients, each))

    def commands(self) -> list[list[str]]:
        how = ["--concurrency", "10", "--delete-jobs", "successful"]
        return [[program("procrastinate"), f"--app={__name__}.app", "worker", *how]] * 2

    def close(self) -> None:
        self.run(app.close_async())
        super().close()


async def lives(clients: int, each: int) -> float:
    """Clients and a worker on one event loop."""
    worker = asyncio.create_task(app.run_worker_async(concurrency=clients, delete_jobs="successful", wait=True))

    async def client(own: int) -> None:
        for _ in range(each):
            running[own] = asyncio.Event()
            await tell.defer_async(number=own, text="x" * 100)
            await running[own].wait()

    await client(0)
    began = time.monotonic()
    await asyncio.gather(*map(client, range(clients)))
    took = time.monotonic() - began
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    return clients * each / took
