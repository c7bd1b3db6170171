"""The pages on Python keep up with the code, and their examples run."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headgate
from headgate.app import App
from headgate.client.functions import JobFunction
from headgate.client.handles import AsyncJobHandle, JobHandle
from headgate.client.leases import HeldLease
from headgate.client.sdk import AsyncCalls
from headgate.worker.context import JobContext

ROOT = Path(__file__).parents[2]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
REFERENCE = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")


def documented(section: str) -> set[str]:
    """The first column of the tables of a section."""
    text = REFERENCE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


def public(kind: type, *instance: str) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")} | set(instance)


def run(code: str, directory: Path) -> None:
    script = directory / "lesson.py"
    script.write_text(code, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr


def test_every_call_of_the_app_is_documented() -> None:
    parameters = set(inspect.signature(App).parameters)
    assert documented("The app") == public(App) | parameters


def test_the_async_twin_has_the_calls_that_the_page_says() -> None:
    twins = {"submit", "submit_many", "get", "patch", "observe", "status", "lease"}
    assert public(AsyncCalls) == twins
    sentence = REFERENCE.split("`app.aio` has the same calls")[1].split("as an\nasynchronous")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == twins


@pytest.mark.parametrize(
    ("section", "members"),
    [
        ("Job functions", public(JobFunction) - {"function", "name"}),
        ("Handles", public(JobHandle, "id")),
        ("Leases", public(HeldLease, "id", "job_id", "units", "let_go_by") - {"keep", "settle"}),
        ("Inside a job", public(JobContext, "id", "attempt", "name", "seed", "stop_reason") - {"stop", "on_stop"}),
    ],
)
def test_every_member_is_documented(section: str, members: set[str]) -> None:
    assert documented(section) == members


def test_handles_are_twins() -> None:
    assert public(JobHandle) == public(AsyncJobHandle)


def test_every_public_name_is_on_the_page_and_every_error_in_its_table() -> None:
    assert [name for name in headgate.__all__ if name not in REFERENCE] == []
    core = {"HeadgateError", "InvalidJob", "JobNotFound", "QueueFull", "QuotaExceeded"}
    errors = {name for name in headgate.__all__ if _is_error(name)} - core
    assert documented("Errors") == errors


def _is_error(name: str) -> bool:
    found = getattr(headgate, name)
    return isinstance(found, type) and issubclass(found, Exception)


def test_the_lesson_runs_as_it_stands(tmp_path: Path) -> None:
    lesson = (ROOT / "docs/tutorial/first-steps.md").read_text(encoding="utf-8")
    run("\n\n".join(PYTHON.findall(lesson)), tmp_path)


def test_the_examples_of_the_reference_run(tmp_path: Path) -> None:
    run("\n\n".join(PYTHON.findall(REFERENCE)), tmp_path)


def test_the_handlers_of_the_guide_can_be_imported_and_run(tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/write-a-worker.md").read_text(encoding="utf-8")
    handlers = PYTHON.findall(guide)[0]
    use = (
        'with app.running(workers=1):\n    assert render.submit("s").result(timeout=60)["frames"] == 100\napp.close()\n'
    )
    run(handlers.replace('headgate.App("jobs.db")', 'headgate.App("jobs.db", load=0)') + "\n" + use, tmp_path)


def test_importing_the_package_imports_next_to_nothing() -> None:
    code = (
        "import sys, headgate; print([m for m in sys.modules if m.startswith('headgate.')], 'msgspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]
