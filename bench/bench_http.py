"""Submitting over HTTP: what the server does with a durable job, beside what it does with nothing at all.

The server runs in a process of its own on a SQLite file; the clients are bare sockets in this process, so that the
figures are the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.report import Table, at_least

SECONDS = float(os.environ.get("HEADGATE_BENCH_SECONDS", "2"))
ROUNDS = 3
BULK = 1_000


@dataclass(frozen=True)
class Target:
    """A server to speak to."""

    port: int
    token: str

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A request as it goes over the wire."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@contextlib.contextmanager
def served() -> Iterator[Target]:
    """A server in a process of its own."""
    directory = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    command = [sys.executable, "-m", "bench.http_server", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    try:
        assert process.stdout is not None
        yield Target(**json.loads(process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, "the server did not end well"
        shutil.rmtree(directory)


class Client(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    def __init__(self, request: bytes, expected: bytes) -> None:
        self._request = request
        self._expected = expected
        self._buffer = b""
        self.answers = 0
        self.times: list[float] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.ask()

    def ask(self) -> None:
        self._asked = perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        assert self._buffer.startswith(self._expected), self._buffer[:200]
        self._buffer = b""
        self.answers += 1
        self.times.append(perf_counter() - self._asked)
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        self.closed.set_result(None)


async def measure(target: Target, request: bytes, expected: bytes, connections: int, seconds: float) -> list[float]:
    """Ask from so many connections for so long; how long each answer took."""
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(lambda: Client(request, expected), "127.0.0.1", target.port)
        clients.append(client)
    await asyncio.sleep(seconds)
    for client in clients:
        client._transport.abort()  # noqa: SLF001 - ours
    await asyncio.gather(*(client.closed for client in clients))
    return [took for client in clients for took in client.times]


def rates(target: Target, connections: int, *asked: tuple[bytes, bytes]) -> list[tuple[float, float]]:
    """Answers per second to each request in the best of several rounds, and the median time of one in milliseconds.

    The requests take turns, so that a neighbour who comes and goes meets all of them.
    """
    best = [(0.0, 0.0)] * len(asked)
    for _ in range(ROUNDS):
        for place, (request, expected) in enumerate(asked):
            times = sorted(asyncio.run(measure(target, request, expected, connections, SECONDS)))
            best[place] = max(best[place], (len(times) / SECONDS, times[len(times) // 2] * 1000))
    return best


def main() -> None:
    """Print the tables."""
    job = json.dumps({"payload": "x" * 100}).encode()
    many = json.dumps([{"payload": "x" * 100}] * BULK).encode()
    table = Table("HTTP, one server process, SQLite FULL", ["requests/s", "jobs/s", "p50 ms", "of no-op"])
    with served() as target:
        nothing = target.request("GET", "/healthz"), b"HTTP/1.1 200"
        one = target.request("POST", "/v2/jobs", job), b"HTTP/1.1 201"
        bulk = target.request("POST", "/v2/jobs", many), b"HTTP/1.1 201"
        for connections in (1, 64):
            (idle, idle_ms), (submits, submit_ms) = rates(target, connections, nothing, one)
            table.add(f"no-op, {connections} connections", idle, "", idle_ms)
            goals = [at_least(submits / idle, 0.4, " x no-op")] if connections == 64 else []
            table.add(f"submit, {connections} connections", submits, submits, submit_ms, submits / idle, goals=goals)
        ((bulks, middle),) = rates(target, 4, bulk)
        goal = at_least(bulks * BULK, 100_000.0, " jobs/s")
        table.add(f"bulk of {BULK}, 4 connections", bulks, bulks * BULK, middle, goals=[goal])
    table.show()


if __name__ == "__main__":
    main()
