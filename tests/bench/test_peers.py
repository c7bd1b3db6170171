"""The benchmark beside other queues: what it concludes from figures, and that it really runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers import catalogue, measuring
from bench.peers.catalogue import DRAIN, ENTRIES, KILL, LIVES, PICK_UP, SUBMIT, UnknownPeer, chosen
from bench.peers.installing import PINS, CannotInstall, Environment
from bench.peers.peer import ENDED, family
from bench.peers.running import Failed, Log, Plan, Runner, measured
from bench.peers.servers import Servers
from bench.peers.verdict import Verdict

ROOT = Path(__file__).resolve().parents[2]


def log_of(**figures: dict[str, float]) -> Log:
    log = Log(loads=[1.0], syncs_ms=[0.1, 0.1, 5.0])
    log.figures = {
        name.replace("_", "-"): {key: [value] for key, value in own.items()} for name, own in figures.items()
    }
    return log


def verdicts(log: Log) -> dict[str, bool]:
    return {check.label: check.goal.met for check in Verdict(log).checks()}


def test_a_queue_is_chosen_by_its_name_or_by_one_of_its_forms() -> None:
    assert {entry.name for entry in chosen("huey, celery-solo")} == {"huey-redis", "huey-sqlite", "celery-solo"}
    assert chosen("") == ENTRIES


def test_a_queue_that_nobody_knows_is_named() -> None:
    with pytest.raises(UnknownPeer, match=r"'sidekiq' is not one of .*celery"):
        chosen("huey,sidekiq")


def test_every_entry_has_its_module_and_pins() -> None:
    pinned = {line.split("==")[0] for line in PINS.read_text().splitlines() if "==" in line}
    for entry in ENTRIES:
        assert (ROOT / f"bench/peers/{entry.queue}.py").is_file()
        assert set(entry.packages) <= pinned
        assert set(entry.measures) <= {*catalogue.SPEED, KILL}
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)


def test_a_drain_is_judged_against_the_best_of_the_others() -> None:
    log = log_of(
        headgate_file_128={DRAIN: 60_000.0},
        headgate_file_0={DRAIN: 5_000.0},
        pgqueuer={DRAIN: 31_000.0},
        taskiq={DRAIN: 4_000.0},
        huey_redis={DRAIN: 6_000.0},
        huey_sqlite={DRAIN: 3_000.0},
    )
    assert verdicts(log) == {
        "drain, headgate-file-128 / pgqueuer": False,
        "drain, headgate-file-128 / huey-redis": True,
        "drain, headgate-file-0 / taskiq": True,
        "drain, headgate-file-0 / huey-redis": False,
    }


def test_a_pick_up_is_judged_against_the_disk_and_the_best_durable_queue() -> None:
    log = log_of(
        headgate_http_0={"p50_ms": 0.5}, ray={"p50_ms": 0.1}, taskiq={"p50_ms": 1.0}, rq_simple={"p50_ms": 2.0}
    )
    assert verdicts(log) == {
        "pick-up p50, headgate-http-0 / fdatasync p50": True,
        "pick-up p50, headgate-http-0 / taskiq": True,
    }


def test_lives_and_kills_are_judged() -> None:
    log = log_of(
        headgate_postgres_128={LIVES: 10_000.0},
        headgate_file_0={"not_rerun": 1.0, "rerun_s": 34.0},
        pgqueuer={LIVES: 6_000.0},
        procrastinate={LIVES: 900.0},
    )
    assert verdicts(log) == {
        "lives, headgate-postgres-128 / procrastinate": True,
        "lives, headgate-postgres-128 / pgqueuer": False,
        "killed jobs that never ran again, headgate-file-0": False,
        "seconds until all ran again, headgate-file-0": True,
    }


def test_rounds_count_by_their_median() -> None:
    log = log_of(taskiq={SUBMIT: 1.0})
    log.figures["taskiq"][SUBMIT] = [1.0, 900.0, 3.0]
    assert Verdict(log).figure("taskiq", SUBMIT) == 3.0
    assert Verdict(log).figure("taskiq", DRAIN) is None


def test_a_table_has_a_row_for_each_queue_that_was_measured() -> None:
    rows = Verdict(log_of(taskiq={SUBMIT: 4_000.0}, ray={DRAIN: 2_000.0})).speed().rows
    assert rows == [
        ("taskiq, Redis stream", "4,000", "-", "-", "-", "-", "-", ""),
        ("Ray, in memory", "-", "-", "2,000", "-", "-", "-", ""),
    ]


def test_the_rate_of_a_drain_leaves_out_its_ends() -> None:
    milliseconds = [0, *range(1_000, 1_098), 90_000]
    marks = [(number, at * 1_000_000) for number, at in enumerate(milliseconds)]
    assert measuring.rate(marks) == pytest.approx(1_000)


def test_a_job_that_ran_twice_is_no_rate() -> None:
    with pytest.raises(measuring.NotMeasured, match="twice"):
        measuring.rate([(1, 10), (1, 20)])


def test_the_fate_of_killed_jobs_is_told_by_their_marks() -> None:
    seconds = 1_000_000_000
    marks = [
        (0, 1),
        (ENDED, 2),
        (1, 3),
        (2, 4),
        (1, 15 * seconds),
        (ENDED + 1, 16 * seconds),
        (ENDED + 1, 17 * seconds),
    ]
    fate = measuring.fate(marks, struck={1, 2}, killed=10 * seconds)
    assert fate == {"struck": 2, "not_rerun": 1, "unfinished": 18, "finished_twice": 1, "rerun_s": 5.0}


def test_a_family_has_all_descendants() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        found = family(shell.pid)
        for pid in reversed(found):
            os.kill(pid, 9)
    assert found == [shell.pid, child]


def test_a_measure_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="ValueError: no broker"):
        measured([sys.executable, "-c", "raise ValueError('no broker')"], dict(os.environ), str(tmp_path))


def test_a_measure_that_hangs_is_killed_with_its_workers(tmp_path: Path) -> None:
    script = "import subprocess; p = subprocess.Popen(['sleep', '60']); open('pid', 'w').write(str(p.pid)); p.wait()"
    with pytest.raises(Failed, match="nothing after"):
        measured([sys.executable, "-c", script], dict(os.environ), str(tmp_path), longest=3.0)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}/exe").exists()


def test_what_cannot_be_installed_is_skipped_loudly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Nowhere(Environment):
        def install(self, packages: tuple[str, ...], *, dependencies: bool = True) -> None:
            raise CannotInstall(f"no wheel of {packages[0]}")

    environment = Nowhere(tmp_path)
    plan = Plan((PICK_UP,), jobs=1, samples=1, rounds=1, within=1.0)
    log = Runner(plan, environment, Servers(environment)).run(chosen("taskiq"))
    assert log.skipped == {"taskiq": "no wheel of taskiq"}
    assert "SKIPPED taskiq, Redis stream: no wheel of taskiq" in capsys.readouterr().err


def test_headgate_is_measured_end_to_end() -> None:
    command = [sys.executable, "-m", "bench.peers", "--only", "headgate-file-0,headgate-http-128", "--json"]
    size = ["--jobs", "200", "--samples", "2", "--measures", "submit,bulk,drain,pick_up"]
    done = subprocess.run([*command, *size], cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["skipped"] == {}, done.stderr
    assert set(found["figures"]["headgate-file-0"]) == {"submit", "bulk", "drain", "p50_ms", "p99_ms"}
    assert set(found["figures"]["headgate-http-128"]) == {"drain"}
    assert [goal["goal"] for goal in found["goals"]] == ["pick-up p50, headgate-file-0 / fdatasync p50"]
