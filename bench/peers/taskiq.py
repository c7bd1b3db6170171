"""taskiq on a Redis stream: two worker processes, up to 100 jobs at once in each. It has no bulk call: 100 at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import uvloop
from taskiq_redis import RedisStreamBroker

from bench.peers.peer import AsyncPeer, parts, program, setting, work_async

broker = RedisStreamBroker(setting("redis"))


@broker.task(task_name="job")
async def job(number: int, text: str) -> None:
    await work_async(number, text)


class Queue(AsyncPeer):
    has_bulk = True

    @staticmethod
    def loop_factory() -> Any:
        return uvloop.new_event_loop

    def open(self) -> None:
        self.run(broker.startup())

    async def send(self, number: int, text: str) -> None:
        await job.kiq(number, text)

    def bulk(self, numbers: Sequence[int], text: str) -> None:
        async def at_once() -> None:
            for part in parts(numbers, 100):
                await asyncio.gather(*(self.send(number, text) for number in part))

        self.run(at_once())

    def commands(self) -> list[list[str]]:
        return [[program("taskiq"), "worker", f"{__name__}:broker", "-w", "2", "--log-level", "WARNING"]]

    def close(self) -> None:
        self.run(broker.shutdown())
        super().close()
