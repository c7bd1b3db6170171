"""Huey on Redis or SQLite: one consumer with two worker processes.

On SQLite it polls; here every 10 to 20 ms, where its default backs off to ten seconds.
"""

from __future__ import annotations

from pathlib import Path

from huey import RedisHuey, SqliteHuey

from bench.peers.peer import Peer, program, setting, work

ON_REDIS = setting("variant") == "redis"
huey = (
    RedisHuey("bench", url=setting("redis"))
    if ON_REDIS
    else SqliteHuey("bench", filename=str(Path(setting("directory")) / "huey.db"))
)


@huey.task()
def job(number: int, text: str) -> None:
    work(number, text)


class Queue(Peer):
    def submit(self, number: int, text: str) -> None:
        job(number, text)

    def commands(self) -> list[list[str]]:
        polling = [] if ON_REDIS else ["--delay", "0.01", "--max-delay", "0.02"]
        return [[program("huey_consumer"), f"{__name__}.huey", "-w", "2", "-k", "process", "-q", *polling]]
