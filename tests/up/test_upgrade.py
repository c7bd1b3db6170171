"""A database that an earlier version of the service left behind: it opens, nothing is lost, and the work goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headgate.stores.sqlite.schema import VERSION
from tests.up.house import house, until

KEPT = sorted((Path(__file__).parent / "databases").glob("schema-*.sql"))


@pytest.fixture(params=KEPT, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with the database as the earlier version left it."""
    (tmp_path / ".headgate").mkdir(mode=0o700)
    connection = sqlite3.connect(tmp_path / ".headgate" / "headgate.db")
    connection.executescript(request.param.read_text(encoding="utf-8"))
    connection.close()
    return tmp_path


def test_a_database_is_kept_of_every_version_that_ran_a_service() -> None:
    assert [path.stem for path in KEPT] == [f"schema-{version}" for version in range(2, VERSION + 1)]


def test_the_service_opens_an_old_database_keeps_its_jobs_and_goes_on(old: Path) -> None:
    with house(old) as home:
        jobs = {job["name"]: job for job in home.ask("jobs")["jobs"]}
        assert set(jobs) == {"completed", "failed", "queued", "blocked", "cancelled"}
        assert {name: jobs[name]["state"] for name in ("completed", "failed", "cancelled")} == {
            "completed": "completed",
            "failed": "failed",
            "cancelled": "cancelled",
        }
        assert (jobs["queued"]["units"], jobs["queued"]["labels"]) == (3, {"a": "b"})
        until(lambda: home.ask("job", jobs["blocked"]["id"])["state"] == "completed")
        assert home.do("job", jobs["completed"]["id"], "--logs").stdout == "kept\n"
        assert "'once'" in home.do("submit", "--key", "once", "--", "echo", "other").stderr
        assert "interactive-first" in home.do("policy", "list").stdout
        home.stop()
    assert home.do("db", "verify", ".headgate/headgate.db").returncode == 0
