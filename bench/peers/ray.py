"""Ray: a local node with two workers, plain tasks, in memory. Its workers are held back until `start`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import ray

from bench.peers.peer import Peer, setting, work

GATE = Path(setting("directory")) / "gate"
NODE = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 200_000_000, "log_to_driver": False}


@ray.remote
def job(number: int, text: str) -> None:
    work(number, text)


@ray.remote
def hold(begun: Path) -> None:
    begun.touch()
    while not GATE.exists():
        time.sleep(0.002)


class Queue(Peer):
    def open(self) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        ray.init(**NODE, logging_level="ERROR")
        begun = [GATE.with_name(f"held-{place}") for place in range(2)]
        self._jobs: list[Any] = [hold.remote(path) for path in begun]
        while not all(path.exists() for path in begun):
            time.sleep(0.01)

    def submit(self, number: int, text: str) -> None:
        self._jobs.append(job.remote(number, text))

    def start(self) -> None:
        GATE.touch()

    def stop(self) -> None:
        GATE.touch()

    def close(self) -> None:
        GATE.touch()
        ray.shutdown()
