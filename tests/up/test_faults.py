"""Faults of a running service: killed at the worst moment, a full disk, a wire cut one way, a hostile policy."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.server.test_jobs import problem
from tests.up.house import QUICK, House, all_gone, house, until
from tests.up.test_attacks import client_of
from tests.up.test_up import slow_job

ALONE = (*QUICK, "--workers", "0")
TTL, LATEST = 3.0, 5.0
"""The time to live in `QUICK`, and how much later a lease has to be taken back at the latest."""


class Told(NamedTuple):
    """The keys of the jobs that were acknowledged, and of the one that was not."""

    kept: list[str]
    last: str


def dying_at(directory: Path, place: str) -> House:
    """A service that dies at a place of its commits, after it has started: which takes some commits, too."""
    for passages in range(4, 50):
        made = House(directory, *ALONE, HEADGATE_FAILPOINTS=f"{place}=kill:{passages}")
        with contextlib.suppress(AssertionError):
            return made.ready()
        made.close()
    raise AssertionError("it never started")


def submit_until_it_dies(directory: Path, place: str) -> Told:
    """Submit jobs, each under a key of its own."""
    made, kept = dying_at(directory, place), list[str]()
    try:
        with client_of(made) as client, contextlib.suppress(httpx.TransportError):
            while True:
                answer = client.post("/v2/jobs", json={}, headers={"Idempotency-Key": f"k{len(kept)}"})
                assert answer.status_code == 201
                kept.append(f"k{len(kept)}")
        assert made.process.wait(60) == -signal.SIGKILL
    finally:
        made.close()
    return Told(kept, f"k{len(kept)}")


def jobs_of(home: House) -> dict[str, str]:
    """Every job by its key."""
    return {job.get("idempotency_key", ""): job["id"] for job in home.ask("jobs", "--limit", "1000")["jobs"]}


@pytest.mark.parametrize("place", ["commit.before", "commit.written"])
def test_killed_before_the_commit_there_is_no_job_and_nobody_was_told(tmp_path: Path, place: str) -> None:
    told = submit_until_it_dies(tmp_path, place)
    with house(tmp_path, *ALONE) as home:
        assert sorted(jobs_of(home)) == sorted(told.kept)


def test_killed_between_commit_and_reply_a_retry_with_the_same_key_finds_the_one_job(tmp_path: Path) -> None:
    for number in range(20):
        place = tmp_path / str(number)
        place.mkdir()
        told = submit_until_it_dies(place, "commit.after")
        with house(place, *ALONE) as home, client_of(home) as client:
            before = jobs_of(home)
            assert set(told.kept) <= set(before) <= {*told.kept, told.last}
            if told.last not in before:  # it died in a commit of the engine's own, before the submission came to it
                continue
            again = client.post("/v2/jobs", json={}, headers={"Idempotency-Key": told.last}).json()
            assert (again["id"], again["created"]) == (before[told.last], [False])
            assert jobs_of(home) == before
            return
    raise AssertionError("it never died between the commit of a submission and the reply")


def test_a_disk_that_takes_nothing_is_said_reads_go_on_and_it_recovers_by_itself(tmp_path: Path) -> None:
    with house(tmp_path, *ALONE) as home, client_of(home) as client:
        job = client.post("/v2/jobs", json={}).json()["id"]
        _, most = before = resource.prlimit(home.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(home.process.pid, resource.RLIMIT_FSIZE, (0, most))
        answer = client.post("/v2/jobs", json={})
        assert answer.status_code in (503, 507)
        assert answer.headers["content-type"] == "application/problem+json"
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        assert client.get(f"/v2/jobs/{job}").json()["state"] == "queued"
        resource.prlimit(home.process.pid, resource.RLIMIT_FSIZE, before)
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v2/jobs", json={}).status_code == 201
        assert client.get(f"/v2/jobs/{job}").json()["state"] == "queued"


def test_the_job_of_a_killed_worker_is_taken_back_in_time(tmp_path: Path) -> None:
    with house(tmp_path, *QUICK, "--workers", "2") as home:
        job, sleeper = slow_job(home)
        worker = home.ask("job", job)["worker_id"]
        pid = next(int(each["labels"]["pid"]) for each in home.ask("workers")["workers"] if each["id"] == worker)
        os.kill(pid, signal.SIGKILL)
        at = time.time()  # noqa: TID251 - the moment that the goal counts from
        assert all_gone([sleeper]) == []
        until(lambda: home.ask("job", job)["attempt"] == 2)
        events = home.ask("job", job, "--events")["events"]
        expired = next(event["at"] for event in events if event["type"] == "lease-expired")
        assert expired - at < TTL + LATEST


class OneWay:
    """A wire to a server that can be cut in the direction of the server, while answers still come."""

    def __init__(self) -> None:
        self._port = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut = threading.Event()
        self._ends: list[socket.socket] = [self._listener]

    def lead_to(self, port: int) -> None:
        self._port = port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._ends += [near, far]
                threading.Thread(target=self._carry, args=(near, far, self.cut), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, threading.Event()), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket, cut: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not cut.is_set():
                    target.sendall(data)

    def close(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def sleeping(parent: psutil.Process) -> psutil.Process | None:
    found = (each for each in parent.children(recursive=True) if each.cmdline()[:1] == ["sleep"])
    return next(found, None)


def test_a_worker_that_is_cut_off_one_way_stops_its_job_at_the_end_of_the_lease(tmp_path: Path) -> None:
    wire = OneWay()
    with house(tmp_path, *ALONE, "--set", f"server.hosts=[127.0.0.1:{wire.port}]") as home:
        wire.lead_to(urlsplit(home.facts["url"]).port or 0)
        url = f"http://127.0.0.1:{wire.port}"
        token = (tmp_path / ".headgate" / "token").read_text(encoding="utf-8").strip()
        environment = {**os.environ, "HEADGATE_URL": url, "HEADGATE_TOKEN": token}
        command = [sys.executable, "-m", "headgate", "worker", "--id", "far", "--drain", "1"]
        with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL) as worker:
            try:
                job = home.do("submit", "--", "sleep", "1000").stdout.strip()
                home.do("job", job, "--wait", "running")
                sleeper = until(lambda: sleeping(psutil.Process(worker.pid)))
                wire.cut.set()
                assert all_gone([sleeper], within=TTL + 2 * LATEST) == []
                assert worker.poll() is None
                assert until(lambda: home.ask("job", job)["state"] == "expired")
            finally:
                worker.kill()
                wire.close()


HOSTILE = {
    "a loop": "function schedule(context) while true do end end",
    "a loop in pcall": "function schedule(context) while true do pcall(function() while true do end end) end end",
    "too much memory": "function schedule(c) local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end end",
    "nonsense": "function schedule(context) return {{action = 'dispatch', job_id = 'none', worker_id = 0/0}} end",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_policy_holds_up_neither_the_server_nor_the_jobs(tmp_path: Path, name: str) -> None:
    flags = ("--port", "0", "--json", "--load", "0", "--workers", "1", "--mode", "lab")
    with house(tmp_path, *flags) as home, client_of(home) as client:
        body = {"name": "hostile", "language": "lua", "source": HOSTILE[name], "mode": "active", "force": True}
        answer = client.post("/v2/admin/scheduler/deploy", json=body)
        if answer.status_code != 201:
            problem(answer, 400, "invalid_policy")
            return
        slowest = 0.0
        jobs = [
            client.post("/v2/jobs", json={"run": {"kind": "command", "argv": ["true"]}}).json()["id"] for _ in range(3)
        ]
        while any(client.get(f"/v2/jobs/{job}").json()["state"] != "completed" for job in jobs):
            slowest = max(slowest, client.get("/healthz").elapsed.total_seconds())
        assert slowest < 1.0
        failures = client.get("/v2/admin/decisions", params={"failed": True}).json()["decisions"]
        assert failures
        assert {each["decided_by"] for each in failures} == {"platform"}


def test_a_yaml_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))
    bomb = f"a0: &a0 [x]\n{levels}\nscheduler: *a9\n"
    with house(tmp_path, *ALONE) as home, client_of(home) as client:
        answer = client.post("/v2/admin/scheduler/validate", json={"language": "yaml", "source": bomb})
        assert answer.status_code == 200
        assert not answer.json()["ok"]
        assert answer.json()["diagnostics"]
        assert answer.elapsed.total_seconds() < 1.0
