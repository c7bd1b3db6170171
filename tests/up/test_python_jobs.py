"""Python jobs on a service: they go to workers that have the handler, and what they print is their log."""

from __future__ import annotations

from pathlib import Path

import headgate
from tests.up.house import House
from tests.up.test_pool import program

TASKS = """
import sys
import headgate

app = headgate.App("memory://")

@app.job()
def count(words):
    print("counting", words)
    print("aside", file=sys.stderr)
    return len(words.split())
"""


def test_a_job_waits_for_a_worker_with_its_handler_and_its_output_is_kept(service: House, tmp_path: Path) -> None:
    token = (service.directory / ".headgate" / "token").read_text(encoding="utf-8").strip()
    with headgate.App(service.facts["url"], token=token) as app:
        waiting = app.submit(type="count", payload={"args": ["one two three"]})
        assert "handler" in service.do("explain", waiting.id).stdout
        (tmp_path / "tasks.py").write_text(TASKS, encoding="utf-8")
        with program(service, "worker", "--id", "able", "--app", f"{tmp_path / 'tasks.py'}:app"):
            assert waiting.result(timeout=60) == 3
        assert waiting.info().worker_id == "able"
        assert waiting.logs() == "counting one two three\naside\n"
