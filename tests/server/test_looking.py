"""A recorded decision is looked at through the API and by the command line, as an editor starts it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from headgate.bootstrap.looking import Looked
from headgate.cli import exits
from headgate.policy.debugging.messages import Inbox, frame
from headgate.policy.deciding import PolicyEngine
from tests.cli.running import headgate
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register
from tests.server.world import World

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("lab"), policy=PolicyEngine()).start()
    yield world
    world.stop()


@pytest.fixture(scope="module")
def decision(lab: World) -> str:
    with lab.client() as client:
        register(client, "d", slots=2)
        submit(client)
        assert "lease" in claim(client, worker_id="d", wait_s=10)
        found = client.get("/v2/admin/decisions", params={"limit": 1_000}).json()["decisions"]
        return str(next(each["id"] for each in found if each["actions"][0]["action"] == "dispatch"))


def where(world: World) -> tuple[str, ...]:
    return "--url", world.url, "--token", world.token


def test_a_replay_comes_with_its_trace_where_that_is_asked_for(lab: World, decision: str) -> None:
    path = f"/v2/admin/decisions/{decision}/replay"
    with lab.client() as client:
        assert client.post(path, json={}).json().get("trace") is None
        steps = client.post(path, json={"trace": True}).json()["trace"]
        assert any(step["function"] == "schedule" and step["arguments"] for step in steps)
        draft = "function schedule(c)\n  local n = #c.queue\n  return { action = 'wait' }\nend"
        steps = client.post(path, json={"trace": True, "language": "lua", "source": draft}).json()["trace"]
        assert steps[-2]["changed"] == {"n": "1"}


def test_the_context_of_a_decision_is_enough_to_make_it_again(lab: World, decision: str) -> None:
    with lab.client() as client:
        found = client.get(f"/v2/admin/decisions/{decision}/context").json()
        assert found["lua"] == found["source"]
        assert found["frames"]
        problem(client.get("/v2/admin/decisions/nothing/context"), 404, "decision_not_found")
    traced = headgate("policy", "trace", decision, "--json", *where(lab))
    assert (traced.returncode, traced.stderr) == (exits.DONE, "")
    assert json.loads(traced.stdout)["same"] is True


def test_an_unknown_decision_and_a_missing_name_are_refused(lab: World) -> None:
    unknown = headgate("policy", "trace", "nothing", *where(lab))
    assert (unknown.returncode, "there is no decision 'nothing'" in unknown.stderr) == (exits.NOT_FOUND, True)
    unnamed = headgate("policy", "profile", *where(lab))
    assert (unnamed.returncode, "name a decision, or a policy file" in unnamed.stderr) == (exits.BAD_INPUT, True)


def test_decisions_are_listed_from_the_last_back_and_by_what_they_are_about(lab: World, decision: str) -> None:
    everything = json.loads(headgate("policy", "decisions", "--json", "-n", "5000", *where(lab)).stdout)["decisions"]
    ids = [each["id"] for each in everything]
    assert (ids, decision in ids) == (sorted(ids, reverse=True), True)
    oldest = headgate("policy", "decisions", "--oldest", "--json", "-n", "5000", *where(lab)).stdout
    assert json.loads(oldest)["decisions"] == everything[::-1]
    job = next(each for each in everything if each["id"] == decision)["actions"][0]["job_id"]
    shown = headgate("policy", "decisions", "--job", job, "--action", "dispatch", *where(lab)).stdout.splitlines()
    assert (len(shown), shown[1].split()[0]) == (2, decision)
    assert f"dispatch {job} on d" in shown[1]
    for words in (["--failed"], ["--version", "nobody"], ["--until", "2001-01-01"], ["--since", "4e9"]):
        assert json.loads(headgate("policy", "decisions", *words, "--json", *where(lab)).stdout)["decisions"] == []
    for words, code in ((["--since", "soon"], exits.BAD_INPUT), (["-n", "0"], exits.USAGE)):
        assert headgate("policy", "decisions", *words, *where(lab)).returncode == code


def test_a_list_of_decisions_goes_on_where_it_ended(lab: World, decision: str) -> None:
    with lab.client() as client:
        for order in ("oldest", "newest"):
            wanted = {"order": order, "limit": 1_000}
            everything = [each["id"] for each in client.get("/v2/admin/decisions", params=wanted).json()["decisions"]]
            walked, place = list[str](), dict[str, str]()
            while True:
                page = client.get("/v2/admin/decisions", params={"order": order, "limit": 1, **place}).json()
                walked += [each["id"] for each in page["decisions"]]
                if "next" not in page:
                    break
                place = {"after": page["next"]}
            assert (walked, decision in walked) == (everything, True)
        problem(client.get("/v2/admin/decisions", params={"order": "sideways"}), 400, "invalid_input")


def test_numbers_that_make_no_sense_are_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "draft.lua").write_text('function schedule(c) return { action = "wait" } end')
    for words in (["profile", "draft.lua", "--decisions", "0"], ["debug", "draft.lua", "--port", "99999"]):
        done = headgate("policy", *words, cwd=tmp_path)
        assert (len(done.stderr.splitlines()), done.returncode in (exits.BAD_INPUT, exits.USAGE)) == (1, True), words


def test_a_draft_is_traced_and_profiled_in_the_place_of_what_decided(lab: World, decision: str, tmp_path: Path) -> None:
    (tmp_path / "draft.lua").write_text('function schedule(c) return { action = "wait" } end')
    traced = headgate("policy", "trace", decision, "--policy", "draft.lua", *where(lab), cwd=tmp_path)
    assert traced.returncode == exits.DONE
    assert "NOT the same as recorded" in traced.stdout
    profiled = headgate("policy", "profile", "draft.lua", "--decisions", "20", cwd=tmp_path)
    assert (profiled.returncode, profiled.stderr) == (exits.DONE, "")
    assert "20 decisions" in profiled.stdout


class Editor:
    """What an editor does: starts the adapter, speaks on its streams."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "headgate", "policy", "debug", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._inbox, self._number, self._got = Inbox(), 0, list[dict[str, Any]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, whatever happened."""
        self.process.kill()
        self.process.communicate()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        self._number += 1
        assert self.process.stdin is not None
        sent = {"seq": self._number, "type": "request", "command": command, "arguments": arguments}
        self.process.stdin.write(frame(sent))
        self.process.stdin.flush()
        return self.until("request_seq", self._number)

    def until(self, field: str, value: object) -> dict[str, Any]:
        assert self.process.stdout is not None
        while True:
            for message in self._got:
                if message.get(field) == value:
                    self._got.remove(message)
                    return message
            data = self.process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            assert data, "the adapter ended"
            self._got += self._inbox.push(data)


def test_an_editor_starts_the_adapter_and_names_the_decision_when_it_launches(lab: World, decision: str) -> None:
    with Editor(*where(lab)) as editor:
        assert editor.ask("initialize")["success"]
        assert "there is no decision" in editor.ask("launch", decision="nothing")["message"]
        assert "Expected `int`" in editor.ask("launch", decision=decision, number="one")["message"]
        assert editor.ask("launch", decision=decision, stopOnEntry=True)["success"]
        editor.until("event", "initialized")
        assert editor.ask("configurationDone")["success"]
        editor.until("event", "stopped")
        top = editor.ask("stackTrace", threadId=1)["body"]["stackFrames"][0]
        assert top["name"] == "schedule"
        assert "function schedule(context)" in editor.ask("source", sourceReference=1)["body"]["content"]
        assert editor.ask("continue", threadId=1)["success"]
        assert editor.until("event", "exited")["body"] == {"exitCode": 0}
        assert editor.ask("disconnect")["success"]
        assert editor.process.communicate(timeout=30)[1] == b""
        assert editor.process.returncode == exits.DONE


def test_an_editor_that_is_gone_ends_the_adapter(lab: World, decision: str) -> None:
    with Editor(decision, *where(lab)) as editor:
        assert editor.ask("initialize")["success"]
        assert editor.ask("launch", stopOnEntry=True)["success"]
        editor.until("event", "initialized")
        editor.process.communicate(timeout=30)
        assert editor.process.returncode == exits.DONE


def test_the_launch_configurations_of_the_guide_name_fields_that_there_are() -> None:
    page = (DOCS / "how-to/debug-a-policy.md").read_text("utf-8")
    (text,) = re.findall(r"<!-- launch -->\n```json\n(.*?)```", page, re.DOTALL)
    known = {*Looked.__struct_fields__, "type", "request", "name", "stopOnEntry", "view", "debugServer"}
    for configuration in json.loads(text)["configurations"]:
        assert set(configuration) <= known
    extension = json.loads((DOCS.parent / "editors/vscode/package.json").read_text("utf-8"))
    (debugger,) = extension["contributes"]["debuggers"]
    assert set(debugger["configurationAttributes"]["launch"]["properties"]) <= known
    assert (DOCS.parent / "editors/vscode" / debugger["program"]).is_file()


def test_a_decision_of_a_simulation_is_traced_and_gives_the_answer_of_the_simulation(tmp_path: Path) -> None:
    (tmp_path / "mine.lua").write_text("function schedule(c)\n  return platform.schedule(c)\nend")
    for policy in ("easy-backfill", "mine.lua"):
        given = ("policy", "trace", policy, "--workload", "lublin", "--jobs", "40", "--number", "12", "--json")
        done = headgate(*given, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (exits.DONE, "")
        assert json.loads(done.stdout)["same"] is True


def test_a_client_comes_to_a_port(tmp_path: Path) -> None:
    (tmp_path / "mine.lua").write_text('function schedule(c) return { action = "wait" } end')
    command = [sys.executable, "-m", "headgate", "policy", "debug", str(tmp_path / "mine.lua"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = int(process.stderr.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(frame({"seq": 1, "type": "request", "command": "initialize"}))
            (answer,) = Inbox().push(client.recv(1 << 16))
            assert answer["body"]["supportsLogPoints"]
        assert process.wait(30) == exits.DONE
