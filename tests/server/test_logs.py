"""The server's log: JSON lines that say what happened and hold no secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from headgate.server import tokens
from headgate.server.logs import configure_logs, get_logger
from tests.server.conftest import MakeWorld
from tests.server.test_jobs import problem, submit


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs(stream, "info")
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def entries(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_every_line_is_an_object_with_its_time_and_level(log: io.StringIO) -> None:
    get_logger("headgate.x").warning("lease-lost", lease="1-2", number=3)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    ours, theirs = entries(log)
    assert (ours["event"], ours["lease"], ours["level"], ours["logger"]) == (
        "lease-lost",
        "1-2",
        "warning",
        "headgate.x",
    )
    assert theirs["event"] == "Invalid HTTP request received."
    assert all("timestamp" in entry for entry in (ours, theirs))


def test_a_secret_is_hidden_wherever_it_stands(log: io.StringIO) -> None:
    secret = tokens.new_secret()
    logger = get_logger("headgate.x")
    text = f"got {secret}"
    logger.info(text, token=secret, nested={"authorization": "x", "list": [secret]})
    try:
        int(secret)
    except ValueError:
        logger.exception("oops", tried=secret)
    logging.getLogger("other").warning("said %s", secret)
    assert secret not in log.getvalue()
    assert "hg_[hidden]" in log.getvalue()
    assert len(entries(log)) == 3


def test_a_bug_is_logged_whole_and_refusals_by_name(
    log: io.StringIO, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()

    def broken(_: object) -> None:
        raise RuntimeError("what went wrong")

    monkeypatch.setattr(world.app.service.deliveries, "leased", broken)
    with world.client() as client, world.client(world.token_for("read")) as reader:
        job_id = submit(client, run={"kind": "external"})["id"]
        problem(client.post("/v2/leases", json={"worker_id": "w", "job_id": job_id}), 500, "internal_error")
        problem(reader.post("/v2/jobs", json={}), 403, "forbidden")
        problem(client.get("/v2/jobs", headers={"Authorization": f"Bearer {world.token}x"}), 401, "unauthorized")
    (bug,) = [entry for entry in entries(log) if entry["event"] == "bug"]
    assert bug["call"] == "claim"
    assert "what went wrong" in str(bug["exception"])
    refused = [entry for entry in entries(log) if entry["event"] == "refused"]
    assert [entry["code"] for entry in refused] == ["forbidden", "unauthorized"]
    assert world.token not in log.getvalue()


def test_text_for_a_person_hides_secrets_too(log: io.StringIO) -> None:
    configure_logs(log, "info", text=True)
    secret = tokens.new_secret()
    get_logger("headgate.x").info("worker-registered", worker="w-1", token=secret)
    line = log.getvalue()
    assert "worker-registered" in line
    assert "worker=w-1" in line
    assert secret not in line
    assert "\x1b" not in line  # colours are for terminals


def test_what_goes_wrong_with_jobs_and_workers_is_in_the_log(log: io.StringIO, make_world: MakeWorld) -> None:
    world = make_world()
    with world.client() as client:
        client.post("/v2/workers", json={"id": "w-1", "pool": "default", "slots": 1})
        submit(client, run={"kind": "external"}, deadline=0.001)
        client.delete("/v2/workers/w-1")
    said = {entry["event"]: entry for entry in entries(log)}
    assert (said["worker-registered"]["worker"], said["worker-removed"]["worker"]) == ("w-1", "w-1")
