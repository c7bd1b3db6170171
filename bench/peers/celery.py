"""Celery on Redis: two solo workers, or one with two forked children. Results are not kept; 64 jobs are prefetched."""

from __future__ import annotations

from collections.abc import Sequence

from celery import Celery, group

from bench.peers.peer import Peer, parts, program, setting, work

VARIANT = setting("variant")
app = Celery("bench", broker=setting("redis"))
app.conf.update(
    task_ignore_result=True,
    task_acks_late=VARIANT == "late",
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
)


@app.task(name="job")
def job(number: int, text: str) -> None:
    work(number, text)


class Queue(Peer):
    has_bulk = True

    def open(self) -> None:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=3)

    def submit(self, number: int, text: str) -> None:
        job.delay(number, text)

    def bulk(self, numbers: Sequence[int], text: str) -> None:
        for part in parts(numbers):
            group(job.s(number, text) for number in part).apply_async()

    def commands(self) -> list[list[str]]:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
        start = [program("celery"), "-A", __name__, "worker", *quiet]
        if VARIANT == "prefork":
            return [[*start, "--pool", "prefork", "--concurrency", "2"]]
        return [[*start, "--pool", "solo", "--hostname", f"{name}@bench"] for name in ("one", "two")]
