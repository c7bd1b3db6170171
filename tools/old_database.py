"""Write a database as this version of the service leaves it, as SQL text, for the tests of later versions.

Run it before a commit that changes the schema: `python -m tools.old_database`. Jobs end in every state that a service
leaves behind; what they say of themselves is in their names.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from headgate.client.http import Http
from headgate.policy.template_library import template
from headgate.system import SystemChance
from tests.up.house import QUICK, House, house, until

HERE = Path(__file__).parents[1] / "tests" / "up" / "databases"
ENDED = ("completed", "failed")
POLICY = "interactive-first"


def write_old_database() -> Path:
    """Run a service, leave work behind, and keep its file as text."""
    with tempfile.TemporaryDirectory() as directory:
        with house(Path(directory), *QUICK) as home:
            _work(home)
            home.stop()
        connection = sqlite3.connect(Path(directory) / ".headgate" / "headgate.db")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        marks = [f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};" for name in _MARKS]
        path = HERE / f"schema-{version}.sql"
        path.write_text("\n".join([*marks, *connection.iterdump()]) + "\n", encoding="utf-8")
        connection.close()
        return path


_MARKS = ("user_version", "application_id")


def _work(home: House) -> None:
    http = Http(home.facts["url"], (home.directory / ".headgate" / "token").read_text().strip(), SystemChance())

    def submit(**fields: Any) -> str:
        return str(http.post("/v2/jobs", fields, dict[str, Any])["ids"][0])

    def command(*argv: str) -> dict[str, Any]:
        return {"kind": "command", "argv": list(argv)}

    policy = template(POLICY)
    deployed = {"name": POLICY, "language": policy.language, "source": policy.source, "mode": "active"}
    http.post("/v2/admin/scheduler/deploy", deployed, Any)
    for job in (
        submit(name="completed", run=command("echo", "kept"), idempotency_key="once"),
        submit(name="failed", run=command("sh", "-c", "exit 3")),
    ):
        until(lambda job=job: http.get(f"/v2/jobs/{job}", dict[str, Any])["state"] in ENDED)
    later = {"run": command("echo", "ready"), "not_before": http.get("/v2/status", dict[str, Any])["now"] + 60}
    first = submit(name="queued", priority="high", labels={"a": "b"}, units=3, **later)
    submit(name="blocked", run=command("true"), dependencies=[first])
    http.post(f"/v2/jobs/{submit(name='cancelled', **later)}/cancel", {}, Any)


if __name__ == "__main__":
    print(write_old_database())
