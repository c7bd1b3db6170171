"""Dramatiq on Redis: two processes of 16 threads each, which is where it drains fastest."""

from __future__ import annotations

from dramatiq import actor, set_broker
from dramatiq.brokers.redis import RedisBroker

from bench.peers.peer import Peer, program, setting, work

broker = RedisBroker(url=setting("redis"))
set_broker(broker)


@actor(actor_name="job")
def job(number: int, text: str) -> None:
    work(number, text)


class Queue(Peer):
    def open(self) -> None:
        broker.client.ping()

    def submit(self, number: int, text: str) -> None:
        job.send(number, text)

    def commands(self) -> list[list[str]]:
        return [[program("dramatiq"), __name__, "--processes", "2", "--threads", "16"]]
