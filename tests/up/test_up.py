"""`headgate up` as a process: it starts soon, ends clean, and says in one line why it cannot start."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from headgate.cli import exits
from tests.cli.running import headgate
from tests.up.house import QUICK, House, all_gone, house, until


def slow_job(home: House) -> tuple[str, psutil.Process]:
    """A job that runs for long, and the process that does it."""
    job = home.do("submit", "--attempts", "3", "--", "sleep", "1000").stdout.strip()
    home.do("job", job, "--wait", "running")
    found: psutil.Process = until(
        lambda: next((one for one in home.family() if one.is_running() and one.cmdline()[:1] == ["sleep"]), None)
    )
    return job, found


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything_and_work_goes_back(tmp_path: Path, which: signal.Signals) -> None:
    with house(tmp_path) as home:
        job, sleeper = slow_job(home)
        members = [*home.family(), sleeper]
        assert home.stop(which) == 0
        assert all_gone(members) == []
        assert "nothing is left running" in home.said()
        assert not (tmp_path / ".headgate" / "url").exists()
    with house(tmp_path) as home:
        assert home.ask("job", job)["state"] in ("queued", "leased", "running")


def test_a_killed_parent_takes_everybody_with_it(tmp_path: Path) -> None:
    with house(tmp_path) as home:
        _, sleeper = slow_job(home)
        members = [*home.family(), sleeper]
        home.process.kill()
        assert all_gone(members) == []


def test_a_killed_worker_is_started_again_and_its_job_runs_again(tmp_path: Path) -> None:
    with house(tmp_path, *QUICK, "--workers", "1") as home:
        job, sleeper = slow_job(home)
        before = int(home.ask("workers")["workers"][0]["labels"]["pid"])
        os.kill(before, signal.SIGKILL)
        assert all_gone([sleeper]) == []
        until(lambda: home.ask("job", job)["attempt"] == 2 and home.ask("job", job)["state"] == "running")
        after = int(home.ask("workers")["workers"][0]["labels"]["pid"])
        assert after != before
        assert "worker local-1 ended (signal SIGKILL); it is started again" in home.said()


def test_the_url_with_the_token_is_printed_for_people(tmp_path: Path) -> None:
    home = House(tmp_path, "--port", "0", "--load", "3", "--workers", "0", "--demo", "--no-auth")
    try:
        lines = []
        while "stop      Ctrl-C" not in (line := home.line()):
            lines.append(line.rstrip())
        text = "\n".join(lines)
        assert "open      http://127.0.0.1:" in text
        assert "load      FIXED at 3 of 10: nothing is measured" in text
        assert "NO AUTHENTICATION" in text
        assert "workers   none" in text
        jobs = home.ask("jobs")["jobs"]
        assert f"demo      {len(jobs)} jobs submitted" in text
        assert {job["class"] for job in jobs} == {"high", "normal", "low", "background"}
    finally:
        home.close()


def test_the_load_of_the_machine_is_measured_unless_said_otherwise(tmp_path: Path) -> None:
    with house(tmp_path, "--port", "0", "--json", "--workers", "0") as home:
        signals = until(lambda: "cpu" in (found := home.ask("load").get("signals", {})) and found)
        assert {"cpu", "memory", "disk"} <= set(signals)


def test_jobs_that_ask_for_a_resource_run_where_the_configuration_offers_it(tmp_path: Path) -> None:
    (tmp_path / "headgate.yaml").write_text("workers:\n  resources: {memory: 2GB}\n", encoding="utf-8")
    with house(tmp_path) as service:
        done = service.do("run", "-r", "memory=1GB", "--", "echo", "there is room")
        assert (done.returncode, done.stdout) == (0, "there is room\n")
        (worker, _) = until(lambda: len(found := service.ask("workers")["workers"]) == 2 and found)
        assert worker["resources"] == {"memory": 2_000_000_000}


def test_a_policy_file_is_deployed_and_followed(tmp_path: Path) -> None:
    policy = tmp_path / "mine.lua"
    policy.write_text("-- policy: first\nfunction schedule(context) return nil end\n")
    with house(tmp_path, *QUICK, "--workers", "0", "--policy", "mine.lua") as home:
        assert home.ask("policy", "list")["active"].startswith("first@")
        policy.write_text("-- policy: second\nfunction schedule(context) return nil end\n")
        until(lambda: home.ask("policy", "list")["active"].startswith("second@"))
        policy.write_text("this is no lua")
        until(lambda: "not deployed" in home.said())
        assert home.ask("policy", "list")["active"].startswith("second@")


def test_platform_mode_takes_no_policy(tmp_path: Path) -> None:
    with house(tmp_path, *QUICK, "--workers", "0", "--mode", "platform") as home:
        (tmp_path / "mine.lua").write_text("function schedule(context) return nil end\n")
        done = home.do("policy", "deploy", "mine.lua")
        assert (done.returncode, "platform mode" in done.stderr) == (exits.FAILED, True)


# -- what stands in the way -----------------------------------------------------------------------------------------


def refused(directory: Path, *flags: str, code: int, said: str) -> None:
    done = headgate("up", "--workers", "0", *flags, cwd=directory)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(tmp_path, "--port", str(port), code=exits.UNAVAILABLE, said=f"port {port} on 127.0.0.1 is taken")


def test_a_second_one_on_the_same_database_is_told_who_owns_it(tmp_path: Path) -> None:
    with house(tmp_path, *QUICK, "--workers", "0") as home:
        said = f"is owned by process {home.process.pid}"
        refused(tmp_path, "--port", "0", code=exits.UNAVAILABLE, said=said)
        assert home.ask("jobs")["jobs"] == []


def test_a_second_server_in_the_directory_does_not_take_the_address_of_the_first_with_it(tmp_path: Path) -> None:
    alone = (*QUICK, "--workers", "0")
    with house(tmp_path, *alone) as first:
        with house(tmp_path, *alone, "--db", str(tmp_path / "other.db")) as second:
            assert second.stop() == 0
        assert first.ask("jobs")["jobs"] == []
        with house(tmp_path, *alone, "--db", str(tmp_path / "other.db")) as second:
            assert first.stop() == 0
            assert second.ask("jobs")["jobs"] == []
            assert second.stop() == 0
    assert not (tmp_path / ".headgate" / "url").exists()


def test_a_standby_waits_for_the_server_to_go_and_takes_over_with_its_jobs(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    database = ("--db", str(tmp_path / "shared.db"), "--workers", "0")
    with house(first, *QUICK, *database) as leader:
        job = leader.do("submit", "--", "true").stdout.strip()
        standby = House(second, *QUICK, *database, "--standby")
        try:
            until(
                lambda: f"standing by: {tmp_path}/shared.db is owned by process {leader.process.pid}" in standby.said()
            )
            assert not (second / ".headgate" / "url").exists()
            leader.process.kill()
            assert standby.ready().ask("job", job)["state"] == "queued"
            assert standby.stop() == 0
        finally:
            standby.close()


def test_a_standby_that_is_asked_to_stop_ends_well(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    database = ("--db", str(tmp_path / "shared.db"), "--workers", "0")
    with house(tmp_path, *QUICK, *database) as leader:
        standby = House(tmp_path / "second", *QUICK, *database, "--standby")
        try:
            until(lambda: "standing by" in standby.said())
            assert standby.stop() == 0
            assert "Traceback" not in standby.said()
        finally:
            standby.close()
        assert leader.ask("jobs")["jobs"] == []


def test_a_damaged_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"this is not a database" * 500)
    before = (tmp_path / "bad.db").read_bytes()
    refused(tmp_path, "--port", "0", "--db", "bad.db", code=exits.BAD_INPUT, said="bad.db")
    assert (tmp_path / "bad.db").read_bytes() == before


def test_an_empty_address_of_the_database_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "--port", "0", "--db", "", code=exits.BAD_CONFIG, said="--db: must not be empty")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / ".headgate").write_text("in the way")
    refused(tmp_path, "--port", "0", code=exits.CANNOT_CREATE, said=".headgate: cannot be written")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_no_authentication_is_refused_off_loopback(tmp_path: Path, host: str) -> None:
    refused(tmp_path, "--no-auth", "--host", host, "--port", "0", code=exits.BAD_CONFIG, said="without authentication")
    assert not (tmp_path / ".headgate").exists()


def test_a_host_that_is_not_ours_is_named(tmp_path: Path) -> None:
    refused(tmp_path, "--host", "no.such.host.invalid", code=exits.UNAVAILABLE, said="no.such.host.invalid")


def test_an_app_that_cannot_be_loaded_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("app = 1\nprint('imported')\n")
    (tmp_path / "broken.py").write_text("import headgate\nraise ValueError('no')\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(5)\n")
    for app, said in {
        "nope:app": "workers.app: 'nope' cannot be imported: No module named 'nope'",
        "mine:app": "mine:app: is not a headgate.App",
        "mine": "'mine' is not of the form module:app",
        "broken:app": "ValueError: no",
        "leaves:app": "workers.app: leaves:app: exit code 5",
    }.items():
        refused(tmp_path, "--port", "0", "--app", app, code=exits.BAD_CONFIG, said=said)
    assert not (tmp_path / ".headgate").exists()


def test_a_policy_file_that_cannot_be_used_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "broken.lua").write_text("function schedule(")
    (tmp_path / "mine.txt").write_text("function schedule(c) return nil end\n")
    (tmp_path / "mine.lua").write_text("function schedule(c) return nil end\n")
    refused(tmp_path, "--policy", "nofile.yaml", code=exits.NOT_FOUND, said="nofile.yaml: No such file")
    refused(tmp_path, "--policy", "broken.lua", code=exits.BAD_INPUT, said="policy.file: broken.lua: 1:")
    refused(tmp_path, "--policy", "mine.txt", code=exits.BAD_INPUT, said="neither .lua nor .yaml")
    platform = ("--policy", "mine.lua", "--mode", "platform")
    refused(tmp_path, *platform, code=exits.BAD_CONFIG, said="policy.file: in platform mode")
    assert not (tmp_path / ".headgate").exists()


def test_a_policy_that_answers_nonsense_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "wild.lua").write_text("function schedule(c) return 7 end\n")
    refused(tmp_path, "--port", "0", "--policy", "wild.lua", code=exits.BAD_INPUT, said="on generated context 0")
    assert not (tmp_path / ".headgate" / "url").exists()


# -- goals ----------------------------------------------------------------------------------------------------------


def test_an_idle_service_takes_little(tmp_path: Path) -> None:
    with house(tmp_path, "--port", "0", "--json") as home:
        head = psutil.Process(home.process.pid)
        assert head.memory_info().rss < 150 << 20


def test_python_m_headgate_up_is_the_same_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "up", "--help"], capture_output=True, text=True, check=True
    )
    assert "--no-auth" in done.stdout


def test_the_log_is_written_as_the_configuration_says(tmp_path: Path) -> None:
    flags = (*QUICK, "--workers", "1", "--set", "log.level=info", "--set", "log.format=json")
    with house(tmp_path, *flags) as home:
        until(lambda: home.ask("workers")["workers"])
        lines = [json.loads(line) for line in home.said().splitlines() if line.startswith("{")]
    registered = next(line for line in lines if line["event"] == "worker-registered")
    assert (registered["worker"], registered["level"], registered["logger"]) == ("local-1", "info", "headgate.server")
    assert set(home.facts) >= {"url", "pid"}
