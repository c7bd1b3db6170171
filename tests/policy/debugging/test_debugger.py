"""The debug adapter, driven as an editor drives it, on a decision that an engine has recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.policy.debugging import adapter
from headgate.policy.debugging.adapter import Open
from headgate.policy.debugging.session import Session
from headgate.policy.debugging.subject import Subject, of_context, of_file
from headgate.policy.errors import PolicyNotFound
from tests.policy.debugging.conftest import LUA, YAML, Connect
from tests.policy.office import Office


def test_a_recorded_decision_is_stepped_through_and_gives_the_recorded_answer(
    connect: Connect, recorded: Open, office: Office, decided: str, written: Path
) -> None:
    client = connect(recorded)
    client.begin()
    assert client.breakpoints(str(written), 8)[0]["line"] == 8
    client.ask("configurationDone")
    stopped = client.event("stopped")
    assert stopped["reason"] == "breakpoint"
    assert stopped["hitBreakpointIds"]
    frames = client.ask("stackTrace", threadId=1)["stackFrames"]
    assert [(frame["name"], frame["line"]) for frame in frames] == [("pick", 8), ("schedule", 15)]
    assert frames[0]["source"]["path"] == str(written)
    scopes = client.ask("scopes", frameId=frames[0]["id"])["scopes"]
    assert [scope["name"] for scope in scopes] == ["Locals", "Upvalues", "Context", "Globals"]
    assert client.locals()["job"] == "job c"
    assert client.ask("evaluate", expression="asked + #context.queue", frameId=frames[0]["id"])["result"] == "4"
    client.ask("next", threadId=1)
    assert client.event("stopped")["reason"] == "step"
    assert client.top()["line"] == 9
    assert "w1" in client.locals()["worker"]
    client.breakpoints(str(written))
    client.ask("continue", threadId=1)
    said = [client.event("output")["output"] for _ in range(4)]
    assert said[0] == "log info: asked 3\n"
    assert "'job_id': 'c'" in said[1]
    assert "the same as recorded" in said[3]
    assert client.event("exited")["exitCode"] == 0
    client.event("terminated")
    assert client.ask("disconnect") == {}
    assert office.policies.replay(decided).same


def test_a_breakpoint_on_an_empty_line_moves_to_the_next_with_code_and_one_past_the_end_is_refused(
    connect: Connect, recorded: Open, written: Path
) -> None:
    client = connect(recorded)
    client.begin()
    moved, lost = client.breakpoints(str(written), 6, 500)
    assert (moved["verified"], moved["line"]) == (True, 8)
    assert not lost["verified"]
    assert "no line with code" in lost["message"]


def test_a_file_with_another_text_is_not_the_policy_that_decided(
    connect: Connect, recorded: Open, tmp_path: Path
) -> None:
    other = tmp_path / "other.lua"
    other.write_text(LUA + "-- changed\n")
    client = connect(recorded)
    client.begin()
    (point,) = client.breakpoints(str(other), 8)
    assert not point["verified"]
    assert "not the policy" in point["message"]


def test_conditions_counts_and_log_points(connect: Connect, recorded: Open, written: Path) -> None:
    client = connect(recorded)
    client.begin()
    points = client.breakpoints(
        str(written),
        {"line": 5, "logMessage": "looking at {job.id} of {#context.queue}"},
        {"line": 8, "condition": "job.id == 'd'"},
        {"line": 9, "hitCondition": ">= 2"},
    )
    assert all(point["verified"] for point in points)
    client.ask("configurationDone")
    assert client.event("stopped")["reason"] == "breakpoint"
    assert client.event("output")["output"] == "looking at c of 3\n"
    assert client.locals()["job"] == "job d"
    client.ask("continue", threadId=1)
    client.event("stopped")
    assert client.top()["line"] == 9


@pytest.mark.parametrize(
    ("bad", "why"), [({"condition": "job.id =="}, "unexpected symbol"), ({"hitCondition": "often"}, "a count such as")]
)
def test_a_breakpoint_whose_condition_cannot_be_read_says_so(
    connect: Connect, recorded: Open, written: Path, bad: dict[str, str], why: str
) -> None:
    client = connect(recorded)
    client.begin()
    (point,) = client.breakpoints(str(written), {"line": 8, **bad})
    assert not point["verified"]
    assert why in point["message"]


def test_steps_go_in_over_and_out(connect: Connect, recorded: Open) -> None:
    client = connect(recorded)
    client.begin(stopOnEntry=True)
    client.ask("configurationDone")
    assert client.event("stopped")["reason"] == "entry"
    assert (client.top()["name"], client.top()["line"]) == ("schedule", 14)

    def go(how: str) -> tuple[str, int]:
        client.ask(how, threadId=1)
        client.event("stopped")
        return client.top()["name"], client.top()["line"]

    while go("stepIn") != ("pick", 5):
        pass
    assert go("next") == ("pick", 8)
    assert go("stepOut")[0] == "schedule"


def test_a_breakpoint_in_a_function_on_one_line_stops_at_every_call(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "filter.lua"
    path.write_text(
        "local function small(job) return job.units < 5 end\n"
        "function schedule(context)\n"
        '  return { action = "wait", reason = "" .. #context.helpers.filter_jobs(small, 3) }\n'
        "end\n"
    )
    client = connect(lambda _: of_file(path, "crowd:3"))
    client.begin()
    client.breakpoints(str(path), {"line": 1, "condition": "job ~= nil"})
    client.ask("configurationDone")
    seen = set()
    for _ in range(3):
        client.event("stopped")
        seen.add(client.locals()["job"])
        client.ask("continue", threadId=1)
    assert seen == {"job job-0", "job job-1", "job job-2"}
    assert client.event("exited")["exitCode"] == 0


def test_values_are_opened_part_by_part(connect: Connect, recorded: Open, written: Path) -> None:
    client = connect(recorded)
    client.begin()
    client.breakpoints(str(written), 8)
    client.ask("configurationDone")
    client.event("stopped")
    context = client.ask("scopes", frameId=client.top()["id"])["scopes"][2]
    parts = client.ask("variables", variablesReference=context["variablesReference"])["variables"]
    queue = next(part for part in parts if part["name"] == "queue")
    assert (queue["value"], queue["indexedVariables"]) == ("list of 3", 3)
    jobs = client.ask("variables", variablesReference=queue["variablesReference"], start=1, count=1)["variables"]
    assert [job["name"] for job in jobs] == ["[2]"]
    fields = client.ask("variables", variablesReference=jobs[0]["variablesReference"])["variables"]
    shown = {field["name"]: field["value"] for field in fields}
    assert shown["class"] == '"normal"'
    assert "there is no variable" in client.refused("variables", variablesReference=9_999)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("1 +", "unexpected symbol"),
        ("nobody.field", "attempt to index"),
        ("math.random()", "must not draw random numbers"),
        ("pick(context, context.queue[1])", "must not draw random numbers"),
        ("os.exit()", "attempt to index"),
        ("debug.sethook()", "attempt to index"),
        ("(function() asked_by_me = 1 end)()", "only reads"),
    ],
)
def test_an_expression_that_is_wrong_says_why_and_harms_nothing(
    connect: Connect, recorded: Open, written: Path, expression: str, why: str
) -> None:
    client = connect(recorded)
    client.begin()
    client.breakpoints(str(written), 14)
    client.ask("configurationDone")
    client.event("stopped")
    assert why in client.refused("evaluate", expression=expression, frameId=client.top()["id"])
    client.breakpoints(str(written))
    client.ask("continue", threadId=1)
    assert client.event("exited")["exitCode"] == 0


def test_an_expression_that_does_not_end_ends_the_session(
    connect: Connect, recorded: Open, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "PATIENCE_S", 0.5)
    client = connect(recorded)
    client.begin(stopOnEntry=True)
    client.ask("configurationDone")
    client.event("stopped")
    client.send("evaluate", expression="(function() while true do end end)()", frameId=1)
    assert "does not end" in client.event("output")["output"]
    client.event("terminated")


def test_an_error_that_ends_the_decision_stops_where_it_was_raised(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "broken.lua"
    path.write_text("function schedule(context)\n  local job = nil\n  return job.id\nend\n")
    client = connect(lambda _: of_file(path))
    client.begin()
    client.ask("setExceptionBreakpoints", filters=["uncaught"])
    client.ask("configurationDone")
    stopped = client.event("stopped")
    assert stopped["reason"] == "exception"
    assert "attempt to index" in stopped["text"]
    assert client.top()["line"] == 3
    assert "attempt to index" in client.ask("exceptionInfo", threadId=1)["description"]
    client.ask("continue", threadId=1)
    assert "the policy failed" in client.event("output")["output"]
    assert client.event("exited")["exitCode"] == 1


def test_an_error_that_is_caught_stops_only_if_asked_for(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "careful.lua"
    path.write_text(
        'function schedule(context)\n  pcall(function() error("no") end)\n  return { action = "wait" }\nend\n'
    )
    client = connect(lambda _: of_file(path))
    client.begin()
    client.ask("setExceptionBreakpoints", filters=["caught"])
    client.ask("configurationDone")
    assert "no" in client.event("stopped")["text"]
    assert client.top()["line"] == 2
    client.ask("continue", threadId=1)
    assert client.event("exited")["exitCode"] == 0


def test_a_policy_that_runs_is_paused_and_nothing_is_seen_of_it_before(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "endless.lua"
    path.write_text("function schedule(context)\n  local n = 0\n  while true do n = n + 1 end\nend\n")
    client = connect(lambda _: of_file(path))
    client.begin(stopOnEntry=True)
    client.ask("configurationDone")
    client.event("stopped")
    counted = 0.0
    while not counted:  # a pause may come before the loop has begun
        client.ask("continue", threadId=1)
        assert "running" in client.refused("stackTrace", threadId=1)
        client.ask("pause", threadId=1)
        assert client.event("stopped")["reason"] == "pause"
        counted = float(client.locals().get("n", "0"))
    assert client.top()["line"] == 3


def test_a_client_that_vanishes_takes_the_process_with_it(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    close = Session.close

    def noted(session: Session) -> None:
        close(session)
        closed.append(session.pid)

    monkeypatch.setattr(Session, "close", noted)
    path = tmp_path / "endless.lua"
    path.write_text("function schedule(context)\n  while true do end\nend\n")
    client = connect(lambda _: of_file(path))
    client.begin()
    client.ask("configurationDone")
    client.leave()
    assert closed
    assert not Path(f"/proc/{closed[0]}").exists()


def test_the_process_is_as_locked_down_as_the_one_that_decides(recorded: Open) -> None:
    with Session(recorded({}), "stepping") as session:
        assert session.hello is not None
        assert session.hello.lockdown.reasons == {}
        assert session.hello.lockdown.seccomp


def test_an_unknown_decision_is_refused_at_launch(connect: Connect) -> None:
    def nobody(_: object) -> Subject:
        raise PolicyNotFound("there is no decision 'x'")

    client = connect(nobody)
    client.ask("initialize")
    assert "there is no decision" in client.refused("launch", decision="x")
    assert "launch comes first" in client.refused("stackTrace", threadId=1)
    assert "not supported" in client.refused("makeCoffee")


def test_a_policy_that_does_not_load_is_refused_at_launch_with_its_line(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "syntax.lua"
    path.write_text("function schedule(context)\n  return {\nend\n")
    client = connect(lambda _: of_file(path))
    client.ask("initialize")
    assert "line 3" in client.refused("launch")


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"Content-Length: 99999999999\r\n\r\n",
                                  b"Content-Length: 3\r\n\r\n{{{", b"x" * 5_000])  # fmt: skip
def test_whoever_does_not_speak_the_protocol_is_hung_up_on(connect: Connect, recorded: Open, said: bytes) -> None:
    client = connect(recorded)
    client.sock.sendall(said)
    assert client.sock.recv(100) == b""
    client.leave()
    assert client.problem is not None


def test_arguments_of_the_wrong_type_are_refused(connect: Connect, recorded: Open, written: Path) -> None:
    client = connect(recorded)
    client.begin()
    assert "argument" in client.refused(
        "setBreakpoints", source={"path": str(written)}, breakpoints=[{"line": "eight"}]
    )


# -- YAML -----------------------------------------------------------------------------------------------------------


def test_a_yaml_policy_is_walked_rule_by_rule(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(YAML)
    client = connect(lambda _: of_file(path, "sample:9"))
    client.begin(stopOnEntry=True)
    (point,) = client.breakpoints(str(path), 14)
    assert point["line"] == 12  # the rule, wherever in it the mark was set
    client.ask("configurationDone")
    client.event("stopped")
    first = client.top()
    assert (first["line"], first["source"]["path"]) == (4, str(path))
    assert "high-first" in first["name"]
    client.ask("next", threadId=1)
    client.event("stopped")
    assert "the-rest" in client.top()["name"]
    assert client.top()["line"] == 12


def test_the_lua_of_a_yaml_policy_can_be_walked_instead(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(YAML)
    client = connect(lambda _: of_file(path, "sample:9"))
    client.begin(view="lua", stopOnEntry=True)
    client.ask("configurationDone")
    client.event("stopped")
    source = client.top()["source"]
    text = client.ask("source", sourceReference=source["sourceReference"])["content"]
    assert "compiled by headgate" in text
    assert (
        text.splitlines()[client.top()["line"] - 1].strip()
        == "local seen = {}  -- what one rule looks up in this call, the next need not"
    )
    names = {each["name"] for each in client.ask("loadedSources")["sources"]}
    assert any(name.startswith("platform-") for name in names)


def test_a_decision_that_the_platform_policy_had_to_make_shows_the_policy_that_failed(
    connect: Connect, office: Office
) -> None:
    office.policies.deploy("lua", "function schedule(c) error('at a loss') end", name="lost", force=True)
    office.submit("a")
    office.cycle()
    failed = office.policies.decisions()[-1]
    assert failed.failure == "error"
    client = connect(lambda _: of_context(office.policies.context(failed.id)))
    client.begin()
    client.ask("setExceptionBreakpoints", filters=["uncaught"])
    client.ask("configurationDone")
    assert "at a loss" in client.event("stopped")["text"]
