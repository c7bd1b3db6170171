"""`headgate sim`, as a user meets it."""

import json
import sys
from pathlib import Path

import pytest

from headgate.bootstrap.engine import start_engine
from headgate.cli import exits
from headgate.core.commands import NewJob, Submit
from headgate.core.job_input import parse_job
from headgate.stores.sqlite import SqliteStore
from tests.cli.running import headgate, on_terminal

MINE = """
scheduler:
  name: mine
  rules:
    - name: short-work
      condition: { job.units: { lte: 2 } }
      action: { dispatch: { worker_selection: first } }
    - name: the-rest
      condition: always
      action: { use: platform-scheduler }
"""


def test_a_change_of_policy_is_shown_end_to_end(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    done = headgate(
        "sim", "compare", "platform", "mine.yaml", "--workload", "lublin", "--jobs", "150", "--load", "3",
        "--report", "report.html", cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (exits.DONE, "")
    assert "mine against platform, job by job (95 % interval):" in done.stdout
    assert "They part at start" in done.stdout
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_a_workload_is_made_simulated_and_answered_in_json(tmp_path: Path) -> None:
    made = headgate("sim", "generate", "poisson", "--jobs", "40", "-o", "w.jsonl", "--json", cwd=tmp_path)
    assert json.loads(made.stdout) == {"ok": True, "jobs": 40, "output": "w.jsonl"}
    done = headgate("sim", "run", "native:fcfs", "-w", "w.jsonl", "--csv", "jobs.csv", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (found["jobs"], found["policy"], "records" in found) == (40, "native:fcfs", False)
    assert len((tmp_path / "jobs.csv").read_text().splitlines()) == 41


def test_what_is_wrong_in_a_file_is_told_on_import(tmp_path: Path) -> None:
    good = "1 10 -1 100 4 -1 -1 8 200 -1 1 3 -1 -1 -1 -1 -1 -1"
    (tmp_path / "log.swf").write_text(f"; MaxProcs: 64\n{good}\n2 3\n")
    done = headgate("sim", "import", "log.swf", "-o", "w.jsonl", cwd=tmp_path)
    assert (
        done.stdout == "1 jobs written to w.jsonl\nproblem: fields: 1 (line 3): 2 fields where 18 are due; left out\n"
    )


def test_a_database_becomes_a_workload(tmp_path: Path) -> None:
    engine = start_engine(SqliteStore(tmp_path / "headgate.db"))
    engine.do(Submit((NewJob("waits", parse_job({})),)))
    engine.stop()
    done = headgate("sim", "import", "headgate.db", "--database", "-o", "w.jsonl", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["problems"] == {"never ran": 1}


def test_the_database_of_a_server_that_runs_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    engine = start_engine(SqliteStore(tmp_path / "headgate.db"))
    engine.do(Submit((NewJob("waits", parse_job({})),)))
    done = headgate("sim", "import", "headgate.db", "--database", "-o", "w.jsonl", "--json", cwd=tmp_path)
    engine.stop()
    assert json.loads(done.stdout)["problems"] == {"never ran": 1}


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = headgate("sim", "import", "gone.db", "--database", "-o", "w.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr.endswith("gone.db: there is no such file\n")) == (exits.UNAVAILABLE, True)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_simulated_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.lua").write_text("function schedule(")
    for words, said in (
        (["run", "nonesuch", "-w", "poisson"], "neither a file nor one of platform, "),
        (["run", "bad.lua", "-w", "poisson"], "bad.lua:1: "),
        (["run", "fcfs", "-w", "gone.swf"], "gone.swf cannot be read"),
        (["run", "fcfs", "-w", "lubin"], "neither a file nor one of poisson, bursty"),
    ):
        done = headgate("sim", *words, cwd=tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (exits.BAD_INPUT, 1), done.stderr
        assert said in done.stderr


@pytest.mark.parametrize(
    "words",
    ["--load nan", "--load inf", "--load 1e308", "--load 0", "--scale nan", "--scale inf", "--scale 0", "--jobs 0",
     "--processors 0", "--limit 0", "--limit soon"],
)  # fmt: skip
def test_a_figure_that_makes_no_sense_is_refused_by_its_name(words: str) -> None:
    done = headgate("sim", "run", "native:fcfs", "-w", "poisson", *words.split())
    assert (done.returncode, done.stdout) == (exits.BAD_INPUT, "")
    name = words.split(maxsplit=1)[0].removeprefix("--")
    assert done.stderr.startswith(f"headgate sim: {name}: "), done.stderr


def test_what_cannot_be_written_is_told_before_anything_is_simulated(tmp_path: Path) -> None:
    for words in (["--report", "gone/report.html"], ["--csv", "gone/jobs.csv"], ["--report", str(tmp_path)]):
        done = headgate("sim", "run", "native:fcfs", "-w", "poisson", "--jobs", "10", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (exits.CANNOT_CREATE, ""), done.stderr


def test_what_is_wrong_in_a_file_is_told_when_it_is_simulated(tmp_path: Path) -> None:
    good = "1 10 -1 100 4 -1 -1 8 200 -1 1 3 -1 -1 -1 -1 -1 -1"
    (tmp_path / "log.swf").write_text(f"; MaxProcs: 64\n{good}\n2 3\n")
    shown = headgate("sim", "run", "native:fcfs", "-w", "log.swf", cwd=tmp_path).stdout
    line = "note: in the workload: fields: 1 (line 3): 2 fields where 18 are due; left out"
    assert line in shown.splitlines()
    compared = headgate("sim", "compare", "fcfs", "sjf", "-w", "log.swf", cwd=tmp_path).stdout
    assert compared.splitlines().count(line) == 1


def test_a_run_that_takes_too_long_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "slow.lua").write_text("function schedule(context) while true do end end")
    cut = headgate("sim", "run", "slow.lua", "-w", "poisson", "--limit", "100ms", "--json", cwd=tmp_path)
    found = json.loads(cut.stdout)
    assert (cut.returncode, found["cut"]["under_way"] + found["cut"]["to_come"] + found["jobs"]) == (exits.DONE, 1_000)
    assert found["counts"]["policy_failures"] == {"timeout": 1}


def test_long_simulations_show_a_bar_on_a_terminal() -> None:
    seen = on_terminal(sys.executable, "-m", "headgate", "sim", "run", "fcfs", "-w", "poisson", "--json")
    assert b"simulating fcfs" in seen
