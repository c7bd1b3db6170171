"""`headgate sim`, as a user meets it."""

import json
from pathlib import Path

from headgate.bootstrap.engine import start_engine
from headgate.cli import exits
from headgate.core.commands import NewJob, Submit
from headgate.core.job_input import parse_job
from headgate.stores.sqlite import SqliteStore
from tests.cli.running import headgate

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


def test_what_cannot_be_simulated_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.lua").write_text("function schedule(")
    for words in (
        ["run", "nonesuch", "-w", "poisson"],
        ["run", "bad.lua", "-w", "poisson"],
        ["run", "fcfs", "-w", "gone.swf"],
    ):
        done = headgate("sim", *words, cwd=tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (exits.BAD_INPUT, 1), done.stderr
