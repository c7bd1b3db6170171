"""Headgate itself, in the same words: embedded on a SQLite file or on Postgres, and as a server over HTTP.

A variant is the home and the leases that a worker may hold beside the running one: `file-0`, `http-128`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import headgate
from bench.peers.peer import BULK, PATIENCE, Peer, kill, parts, setting, work

HOME, _, PREFETCH = setting("variant").partition("-")
SETTINGS = headgate.Settings(total_units=1_000_000)
app = headgate.App("memory://", load=0, settings=SETTINGS)


@app.job(retries=1)
def job(number: int, text: str) -> None:
    """One retry, so that a job whose worker is killed runs again."""
    work(number, text)


class Queue(Peer):
    """The app of this module; its workers load it from here."""

    has_bulk = True

    def open(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        self._running: headgate.app.processes.WorkerProcesses | None = None
        app.move({"file": self._file, "http": self._http, "postgres": self._postgres}[HOME]())
        app.open()

    def submit(self, number: int, text: str) -> None:
        job.submit(number, text)

    def bulk(self, numbers: Sequence[int], text: str) -> None:
        for part in parts(numbers, BULK):
            app.submit_many([job.job(number, text) for number in part])

    def lives(self, clients: int, each: int) -> float:
        from bench.engine_world import AsyncClients  # noqa: PLC0415 - only this measure needs the engine's insides
        from headgate.stores.postgres import PostgresStore  # noqa: PLC0415
        from headgate.system import SystemChance  # noqa: PLC0415

        async def measure() -> float:
            store = PostgresStore(f"{setting('postgres')}&schema=lives", SystemChance(), "bench")
            async with AsyncClients(store) as many:
                await many.lives(clients, 1)
                return await many.lives(clients, each)

        return asyncio.run(measure())

    def start(self) -> None:
        if self._running is None:
            self._running = app.start_workers(processes=2, prefetch=int(PREFETCH))

    def pids(self) -> list[int]:
        return self._running.pids if self._running else []

    def kill(self) -> None:
        """Those who started the workers put others in their place, so `start` has nothing to do after this."""
        kill(self.pids())

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None

    def close(self) -> None:
        app.close()
        if self._server is not None:
            self._server.terminate()
            assert self._server.wait(PATIENCE) == 0, "the server did not end well"

    def _file(self) -> str:
        return f"{setting('directory')}/jobs.db"

    def _postgres(self) -> str:
        return f"{setting('postgres')}&schema=bench"

    def _http(self) -> str:
        command = [sys.executable, "-m", "bench.http_server", setting("directory")]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
        assert self._server.stdout is not None
        there = json.loads(self._server.stdout.readline())
        os.environ["HEADGATE_TOKEN"] = there["token"]
        return f"http://127.0.0.1:{there['port']}"
