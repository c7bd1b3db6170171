"""The parts of a worker, each by itself."""

from __future__ import annotations

import resource
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.core.errors import InvalidInput
from headgate.core.job import CommandRun, HttpRun, PythonRun
from headgate.system import SystemClock
from headgate.wire.http import JobOut, LeaseOut
from headgate.worker.assignment import Assignment, GivenJob, from_wire, read_run
from headgate.worker.calls import CallFailed, run_http
from headgate.worker.commands import CommandFailed, Commands
from headgate.worker.context import GiveUp, JobContext, JobStopped, NoJob, current_job
from headgate.worker.handlers import HandlerNotFound, Handlers, call, failure
from headgate.worker.limits import Limiter, own_cgroup
from headgate.worker.nursery import Nursery
from headgate.worker.output import Output
from headgate.worker.sources import load, load_handlers, locate


def work(payload: Any = None, **fields: Any) -> Assignment:
    given = {"type": "t", "run": PythonRun(), **fields}
    return Assignment("1-1", 7, "job-1", 1, 30_000, payload=msgspec.json.encode(payload), **given)


# -- handlers -----------------------------------------------------------------------------------------------------


def echo(*args: Any, **kwargs: Any) -> Any:
    return [list(args), kwargs]


@pytest.mark.parametrize(
    ("payload", "called"),
    [
        (None, [[], {}]),
        ({"args": [1], "kwargs": {"b": 2}}, [[1], {"b": 2}]),
        ({"kwargs": {"b": 2}}, [[], {"b": 2}]),
        ({"x": 1}, [[{"x": 1}], {}]),
        ({"args": [1], "other": 2}, [[{"args": [1], "other": 2}], {}]),
        ({}, [[{}], {}]),
        ([1, 2], [[[1, 2]], {}]),
        ("text", [["text"], {}]),
    ],
)
def test_the_payload_becomes_the_arguments_of_the_call(payload: Any, called: Any) -> None:
    handlers = Handlers()
    handlers.add("t", echo)
    assert msgspec.json.decode(call(handlers, work(payload), JobContext("job-1"))) == called


def test_handlers_are_found_by_name_by_type_and_by_import_path() -> None:
    handlers = Handlers()
    handlers.add("t", echo)
    assert handlers.find(PythonRun(), "t") is echo
    assert handlers.find(PythonRun("t"), "other") is echo
    assert handlers.find(PythonRun("os.path:join"), "other")("a", "b") == "a/b"
    for wrong in ("nobody", "no.such.module:f", "os:no_such_name", "os:sep"):
        with pytest.raises(HandlerNotFound):
            handlers.find(PythonRun(wrong), "t")


def test_a_name_belongs_to_one_function() -> None:
    handlers = Handlers()
    handlers.add("t", echo)
    handlers.add("t", echo)
    with pytest.raises(InvalidInput, match="handled by"):
        handlers.add("t", print)


def test_coroutines_are_run_to_their_end() -> None:
    async def answer() -> int:
        return 42

    handlers = Handlers()
    handlers.add("t", answer)
    assert call(handlers, work(), JobContext("job-1")) == b"42"


@pytest.mark.parametrize("result", [float("nan"), object(), {1: 2}, "x" * (2 << 20)])
def test_results_that_are_not_json_or_too_large_fail_for_good(result: Any) -> None:
    handlers = Handlers()
    handlers.add("t", lambda: result)
    with pytest.raises(InvalidInput) as wrong:
        call(handlers, work(), JobContext("job-1"))
    assert failure(wrong.value)[1] is False


def test_a_failure_tells_whether_another_attempt_may_help() -> None:
    assert failure(ValueError("x"))[0].code == "ValueError"
    assert failure(ValueError("x"))[1] is True
    assert failure(GiveUp("no use"))[1] is False


# -- the job from inside ------------------------------------------------------------------------------------------


def test_there_is_a_current_job_only_inside_a_handler() -> None:
    with pytest.raises(NoJob):
        current_job()
    handlers = Handlers()
    handlers.add("t", lambda: current_job().id)
    assert call(handlers, work(), JobContext("job-1")) == b'"job-1"'


def test_whoever_asks_later_hears_of_a_stop_at_once() -> None:
    context, told = JobContext("job-1"), []
    context.on_stop(lambda: told.append("first"))
    context.stop("enough", 5.0)
    context.stop("again", 1.0)
    context.on_stop(lambda: told.append("late"))
    assert told == ["first", "late"]
    assert (context.stop_reason, context.grace) == ("enough", 1.0)
    with pytest.raises(JobStopped, match="enough"):
        context.wait(60)
    with pytest.raises(InvalidInput):
        context.progress(1.5)


# -- output -------------------------------------------------------------------------------------------------------


def test_the_beginning_and_the_end_of_the_output_are_kept() -> None:
    output = Output(head=10, tail=10)
    output.add(b"0123456")
    assert output.take() == "0123456"
    for _ in range(100):
        output.add(b"abcdefgh")
    output.write("the end")
    kept = output.rest()
    assert kept.startswith("abc\n[... ")
    assert kept.endswith("the end")
    assert len(kept) < 100


def test_output_that_is_no_text_is_made_text() -> None:
    output = Output()
    output.add(b"a\xff\x00b")
    assert output.rest() == "a\ufffd\ufffdb"


# -- commands -----------------------------------------------------------------------------------------------------


def run_command(*argv: str, payload: Any = None, cwd: str | None = None) -> str:
    clock, output = SystemClock(), Output()
    nursery = Nursery("", clock)
    try:
        run = CommandRun(argv, (("GREETING", "hello"),), cwd)
        Commands(nursery, Limiter(None), clock).run(work(payload, run=run), run, JobContext("job-1"), output)
    finally:
        nursery.close()
    return output.rest()


def test_a_command_gets_its_environment_directory_and_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_TOKEN", "secret")
    script = 'echo "$GREETING $HEADGATE_JOB_ID $HEADGATE_ATTEMPT $HEADGATE_TOKEN." && pwd && cat'
    said = run_command("sh", "-c", script, payload={"x": 1}, cwd=str(tmp_path))
    assert said == f'hello job-1 1 .\n{tmp_path}\n{{"x":1}}'


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["sh", "-c", "exit 3"], "exit_status", "status 3"),
        (["sh", "-c", "kill -9 $$"], "killed", "SIGKILL"),
        (["/no/such/command"], "not_started", "No such file"),
    ],
)
def test_commands_that_fail_say_how(argv: list[str], code: str, words: str) -> None:
    with pytest.raises(CommandFailed, match=words) as failed:
        run_command(*argv)
    assert failure(failed.value)[0].code == code


def test_what_a_command_leaves_running_ends_with_it(tmp_path: Path) -> None:
    said = run_command("sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!")
    status = Path(f"/proc/{int(said)}/status")
    for _ in range(500):
        if not status.exists() or "\nState:\tZ" in status.read_text():
            return
        threading.Event().wait(0.01)
    pytest.fail("it is still there")


# -- limits -------------------------------------------------------------------------------------------------------


def test_limits_are_those_that_the_job_asked_for(tmp_path: Path) -> None:
    asked = work(resources=(("cpu", 0.5), ("memory", 1 << 20)), timeout=2_000)
    group, limits = Limiter(None).prepare(asked)
    assert group is None
    assert limits == [(resource.RLIMIT_DATA, 1 << 20), (resource.RLIMIT_CPU, 2)]
    group, limits = Limiter(tmp_path).prepare(asked)
    assert (group is not None, limits) == (True, [])
    made = tmp_path / "headgate-job-1-1"
    assert (made / "memory.max").read_text() == str(1 << 20)
    assert (made / "cpu.max").read_text() == "50000 100000"
    assert Limiter(tmp_path / "nowhere").prepare(asked)[0] is None


def test_a_cgroup_is_used_only_where_groups_can_be_made(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/slice\n")
    (tmp_path / "slice").mkdir()
    assert own_cgroup(tmp_path, own) is None
    (tmp_path / "slice" / "cgroup.subtree_control").write_text("cpu memory pids")
    assert own_cgroup(tmp_path, own) == tmp_path / "slice"
    assert own_cgroup(tmp_path, tmp_path / "missing") is None


# -- HTTP calls ---------------------------------------------------------------------------------------------------


class Echo(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        status = 500 if self.path == "/broken" else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(msgspec.json.encode({"path": self.path, "got": msgspec.json.decode(body)}))

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_an_http_job_posts_its_payload_and_returns_the_answer() -> None:
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        done = run_http(work({"a": 1}), HttpRun(f"{base}/x?y=1"), JobContext("job-1"))
        assert msgspec.json.decode(done) == {"status": 200, "body": {"path": "/x?y=1", "got": {"a": 1}}}
        with pytest.raises(CallFailed, match="500"):
            run_http(work({"a": 1}), HttpRun(f"{base}/broken"), JobContext("job-1"))
        server.shutdown()
    with pytest.raises(CallFailed) as failed:
        run_http(work({"a": 1}), HttpRun(f"{base}/x"), JobContext("job-1"))
    assert failed.value.failure_code == "unreachable"


# -- where things are ---------------------------------------------------------------------------------------------


def test_an_app_is_found_by_module_and_by_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import headgate\nassert __name__ != '__main__'\napp = headgate.App('memory://')\napp.job('j')(print)\n"
    )
    assert list(load_handlers(f"{script}:app")) == ["j"]
    assert locate(load("tests.worker.jobs_app:app")) == "tests.worker.jobs_app:app"
    for wrong in ("no_colon", "os:nothing", "no.such.module:app", f"{tmp_path}/none.py:app", "os:sep"):
        with pytest.raises(InvalidInput):
            load_handlers(wrong)
    with pytest.raises(InvalidInput, match="global of a module"):
        locate(object())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n1 / 0\n", r"ZeroDivisionError: division by zero \(.*broken\.py, line 2\)"),
        (
            "import headgate\n\nheadgate.App('memory://').job(unit=2)\n",
            r"InvalidJob: unit: unknown.*broken\.py, line 3\)",
        ),
        ("import no_such_thing\n", r"No module named 'no_such_thing' \(.*broken\.py, line 1\)"),
        ("def (\n", r"invalid syntax \(broken.py, line 1\)"),
    ],
)
def test_an_app_whose_module_is_broken_is_named_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for source in (f"{tmp_path}/broken.py:app", "broken:app"):
        with pytest.raises(InvalidInput, match=said):
            load(source)


def test_what_travels_becomes_the_same_assignment() -> None:
    run = {"kind": "command", "argv": ["ls"], "env": {"B": "2", "A": "1"}}
    lease = LeaseOut("1-1", "job-1", 7, "w", 1, 2, 0.0, 30.0, 0.0, 30.0)
    job = JobOut("job-1", "n", "t", "leased", "normal", "normal", run=run, payload=msgspec.Raw(b"[1]"), timeout=1.5)
    made = from_wire(lease, msgspec.json.decode(msgspec.json.encode(job), type=GivenJob))
    assert made.run == CommandRun(("ls",), (("A", "1"), ("B", "2")))
    assert (made.ttl, made.timeout, made.attempt, made.payload, made.begun) == (30_000, 1_500, 2, b"[1]", False)
    assert read_run(b"{}") == PythonRun()
