"""Several machines, each with its own load: real servers, real pool agents, real workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest

from headgate.cli import exits
from tests.up.house import PATIENCE, QUICK, House, all_gone, house, until

SERVER = (*QUICK, "--workers", "0", "--set", "core.pool_degraded=3s")
LOADED: tuple[str, ...] = ("--set", "core.signals.memory.low=0", "--set", "core.signals.memory.high=0.000001")
"""Any memory in use at all counts as 10."""
LOADED += ("--set", "core.signals.cpu.low=9000", "--set", "core.signals.cpu.high=10000")
LOADED += ("--set", "core.signals.pressure_cpu.low=0.999", "--set", "core.signals.pressure_cpu.high=1")
"""Nothing else does, however busy the machine that runs the tests."""


class Program:
    """A `headgate` process beside the service, as on another machine: it knows an address and a token."""

    def __init__(self, service: House, *arguments: str) -> None:
        token = (service.directory / ".headgate" / "token").read_text(encoding="utf-8").strip()
        outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        self.log = service.directory / f"{'-'.join(arguments[:2])}.log"
        with self.log.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headgate", *arguments],
                env={**outside, "HEADGATE_URL": service.facts["url"], "HEADGATE_TOKEN": token},
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=service.directory.parent,
            )

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def end(self, which: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(which)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def program(service: House, *arguments: str) -> Iterator[Program]:
    made = Program(service, *arguments)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        assert made.process.stdout is not None
        made.process.stdout.close()


def agent(service: House, pool: str, *flags: str) -> contextlib.AbstractContextManager[Program]:
    return program(service, "pool", pool, "--set", "core.poll=300ms", *flags)


def pool(service: House, name: str) -> dict[str, Any]:
    return next((each for each in service.ask("pools")["pools"] if each["id"] == name), {})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[House]:
    directory = tmp_path / "server"
    directory.mkdir()
    with house(directory, *SERVER) as made:
        yield made


def test_leases_respect_the_load_of_each_machine_and_a_lost_heartbeat_shuts_its_machine_only(server: House) -> None:
    with (
        agent(server, "loaded", *LOADED) as loaded,
        agent(server, "free", "--load", "0", "--units", "7") as free,
        program(server, "worker", "--pool", "loaded", "--id", "on-loaded"),
        program(server, "worker", "--pool", "free", "--id", "on-free"),
    ):
        until(lambda: pool(server, "loaded").get("busy") == 10 and pool(server, "free").get("workers") == ["on-free"])
        until(lambda: pool(server, "loaded").get("workers"))
        assert "busy 0.0 of 10 (set by hand)" in free.said()
        # 1. work that may run anywhere runs on the free machine; work for the loaded one waits and says why
        stuck = server.do("submit", "--pool", "loaded", "--", "true").stdout.strip()
        for _ in range(3):
            anywhere = server.do("submit", "--", "true").stdout.strip()
            assert server.do("job", anywhere, "--wait", "completed").returncode == 0
            assert server.ask("job", anywhere)["worker_id"] == "on-free"
        said = server.do("explain", stuck).stdout
        assert "pool loaded is busy" in said
        assert "memory is rated 10.0" in said
        assert pool(server, "free")["usable_units"] == 7
        # 2. the agent of the free machine dies without a word: its pool is shut, and so is everything now
        free.end(signal.SIGKILL)
        until(lambda: pool(server, "free").get("status") == "degraded")
        waiting = server.do("submit", "--pool", "free", "--", "true").stdout.strip()
        assert "no fresh report from pool free" in server.do("explain", waiting).stdout
        # 3. it comes back, and so does the work
        with agent(server, "free", "--load", "0") as again:
            assert server.do("job", waiting, "--wait", "completed").returncode == 0
            # 4. one that is asked to leave says so: nothing starts on a machine that nobody watches
            assert again.end(signal.SIGTERM) == 0
            assert "its pool agent has left" in again.said()
        assert (pool(server, "free")["busy"], pool(server, "free")["reasons"]) == (10, ["its pool agent has left"])
        assert server.ask("job", stuck)["state"] == "queued"
        assert loaded.end(signal.SIGINT) == 0


def test_an_agent_outlives_a_restart_of_its_server(tmp_path: Path) -> None:
    directory = tmp_path / "server"
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        with house(directory, *SERVER) as first:
            port = first.facts["url"].rpartition(":")[2]
            reporting = stack.enter_context(agent(first, "lab", "--load", "2", "--json"))
            until(lambda: pool(first, "lab").get("busy") == 2)
            first.stop()
        assert reporting.process.stdout is not None
        lines = (json.loads(line) for line in reporting.process.stdout)
        missed = next(line for line in lines if not line["sent"])
        assert "cannot be reached" in missed["problem"]
        assert missed["again_in"] > 0
        with house(directory, *SERVER, "--port", port) as second:
            until(lambda: pool(second, "lab").get("busy") == 2)
            assert next(line for line in lines if line["sent"])["busy"] == 2
            assert reporting.end() == 0


@pytest.fixture
def patient_server(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path, *QUICK, "--workers", "0") as made:
        yield made


def test_one_report_is_shown_and_what_is_wrong_ends_with_its_code(patient_server: House) -> None:
    server = patient_server
    shown = server.ask("pool", "lab", "--once", "--node", "n1", "-r", "memory=64GB")
    assert (shown["sent"], shown["node"], 0 <= shown["busy"] <= 10) == (True, "n1", True)
    assert {"cpu", "memory", "disk"} <= set(shown["signals"])
    kept = pool(server, "lab")
    assert (kept["node"], kept["units"], kept["resources"]) == ("n1", 100, {"memory": 64e9})
    assert kept["signals"].keys() == shown["signals"].keys()
    said = server.do("pool", "lab", "--once", "--node", "n2")
    assert "COUNTS AS" in said.stdout
    assert "pool lab is reported by n1 as well" in said.stderr
    for flags, code, words in (
        (("--token", "hg_wrong"), exits.FORBIDDEN, "token"),
        (("--url", "http://127.0.0.1:1"), exits.UNAVAILABLE, "nobody answers at http://127.0.0.1:1"),
        (("--units", "-1"), exits.BAD_INPUT, "units: must not be negative"),
        (("-r", "memory=much"), exits.BAD_INPUT, "resources.memory"),
        (("--load", "nan"), exits.BAD_CONFIG, "--load: must be one of measured, a number"),
        (("--load", "11"), exits.BAD_CONFIG, "--load: must be between 0 and 10"),
        (("--set", "core.signals.cpu.low=2"), exits.BAD_CONFIG, "core.signals.cpu"),
    ):
        done = server.do("pool", "lab", "--once", *flags)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert server.do("pool", "lab", "--token", "hg_wrong").returncode == exits.FORBIDDEN, "the first word was refused"
    assert server.do("pools", "--remove", "lab").returncode == 0
    assert pool(server, "lab") == {}


def test_measured_load_shows_its_signals_wherever_a_user_looks(tmp_path: Path) -> None:
    with house(tmp_path, *SERVER, "--load", "measured", *LOADED) as service, program(service, "worker", "--id", "w"):
        until(lambda: service.ask("load")["signals"].get("memory") == 10)
        until(lambda: service.ask("workers")["workers"])
        job = service.do("submit", "--", "true").stdout.strip()
        explained = service.do("explain", job).stdout
        assert "busy_gate: busy rating 10.0: memory is rated 10.0" in explained
        assert "expected start: in " in explained
        assert "expected start: in " in service.do("job", job).stdout
        assert service.ask("job", job)["expected_start"] == pytest.approx(
            service.ask("explain", job)["expected_start"], abs=60
        )
        assert "memory 10.0" in service.do("top", "--once").stdout
        look = service.ask("top")
        assert (look["status"]["capacity"]["signals"]["memory"], look["status"]["capacity"]["usable_units"]) == (10, 0)
        assert service.do("load").stdout.splitlines()[0] == "busy: 10.0 of 10"
        token = (tmp_path / ".headgate" / "token").read_text(encoding="utf-8").strip()
        asked = Request(service.facts["url"] + "/metrics", headers={"Authorization": f"Bearer {token}"})
        with urlopen(asked) as reply:
            text = reply.read().decode()
        assert 'headgate_busy_signal{signal="memory"} 10.0' in text
        assert "headgate_busy_rating 10.0" in text


def test_an_evicted_worker_stops_its_job_at_once_and_leaves_and_the_job_runs_elsewhere(server: House) -> None:
    with program(server, "worker", "--id", "w") as worker:
        job = server.do("submit", "--", "sleep", "1000").stdout.strip()
        server.do("job", job, "--wait", "running")
        (sleeper,) = until(lambda: psutil.Process(worker.process.pid).children())
        assert server.do("workers", "--evict", "w").returncode == 0
        assert worker.process.wait(PATIENCE) == 0
        assert all_gone([sleeper]) == []
        assert "worker w was told to leave" in worker.said()
    shown = server.ask("job", job)
    assert (shown["state"], shown.get("attempt", 0)) == ("queued", 0)
    assert server.ask("workers")["workers"] == []
