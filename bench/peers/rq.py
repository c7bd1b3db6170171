"""RQ on Redis: two workers, each with a fork for every job (its default) or without. Results are not kept."""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis
from rq import Queue as Rq

from bench.peers.peer import Peer, parts, program, setting, work

JOB = f"{__name__}.job"


def job(number: int, text: str) -> None:
    work(number, text)


class Queue(Peer):
    has_bulk = True

    def open(self) -> None:
        self._queue = Rq(connection=Redis.from_url(setting("redis")))
        self._queue.connection.ping()

    def submit(self, number: int, text: str) -> None:
        self._queue.enqueue(JOB, number, text, result_ttl=0)

    def bulk(self, numbers: Sequence[int], text: str) -> None:
        for part in parts(numbers):
            self._queue.enqueue_many([Rq.prepare_data(JOB, args=(number, text), result_ttl=0) for number in part])

    def commands(self) -> list[list[str]]:
        kind = "rq.worker.SimpleWorker" if setting("variant") == "simple" else "rq.worker.Worker"
        # -c imports this module before the fork, as its notes on speed advise.
        return [[program("rq"), "worker", "--url", setting("redis"), "--quiet", "-w", kind, "-c", __name__]] * 2
