"""Every command against a real service: what it prints, what it exits with."""

import json
import os
import pty
import stat
import subprocess
import sys
import termios
from urllib.request import Request, urlopen

import pytest

from headgate.cli import exits
from tests.up.house import PATIENCE, House, until

POLICY = """scheduler:
  name: reports-wait
  rules:
    - name: everything-but-reports
      condition: { job.type: { ne: report } }
      action: { dispatch: {} }
      priority: 10
    - name: reports-wait
      condition: always
      action: { wait: { duration_ms: 60000 } }
"""


def submit(service: House, *arguments: str) -> str:
    done = service.do("submit", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- jobs -----------------------------------------------------------------------------------------------------------


def test_run_shows_the_output_and_exits_with_the_code_of_the_command(service: House) -> None:
    done = service.do("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\nerr\n")
    fine = service.do("run", "--", "echo", "hello")
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "hello\n", "")


def test_run_says_how_a_command_was_killed_or_could_not_start(service: House) -> None:
    assert service.do("run", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    missing = service.do("run", "--", "no-such-program")
    assert (missing.returncode, "cannot be run" in missing.stderr) == (exits.NOT_RUN, True)


def test_run_cancels_its_job_when_it_is_told_to_end(service: House) -> None:
    name = "told-to-end"
    command = [sys.executable, "-m", "headgate", "run", "--name", name, "--", "sleep", "1000"]
    with subprocess.Popen(command, cwd=service.directory, stderr=subprocess.PIPE, text=True) as process:
        (job,) = until(lambda: service.ask("jobs", "--name", name, "--state", "running")["jobs"])
        process.terminate()
        assert process.wait(PATIENCE) == exits.TERMINATED
        assert process.stderr is not None
        assert process.stderr.read() == f"headgate: {job['id']} was cancelled\n"
    assert service.ask("job", job["id"])["state"] == "cancelled"


def test_run_cancels_its_job_when_nobody_reads_its_output_any_more(service: House) -> None:
    name = "unread"
    command = [sys.executable, "-m", "headgate", "run", "--quiet", "--name", name, "--"]
    command += ["sh", "-c", "while echo tick; do sleep 0.01; done"]
    with subprocess.Popen(command, cwd=service.directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"tick\n"
        process.stdout.close()
        assert process.wait(PATIENCE) == exits.BROKEN_PIPE
    (job,) = service.ask("jobs", "--name", name)["jobs"]
    assert job["state"] == "cancelled"


def test_a_state_to_wait_for_that_there_is_not_is_refused_at_once(service: House) -> None:
    done = service.do("job", submit(service, "-r", "gpu=1", "--", "true"), "--wait", "completed,runing")
    assert done.returncode == exits.USAGE
    assert "--wait: there is no state 'runing'; there are ended, blocked, queued" in done.stderr


def test_a_job_that_can_never_start_is_taken_with_a_warning_that_job_and_explain_repeat(service: House) -> None:
    done = service.do("submit", "-u", "1000", "--", "true")
    never = "needs 1000 units and there are 100 in all: it can never start unless units are added"
    job = done.stdout.strip()
    assert (done.returncode, done.stderr) == (0, f"headgate submit: warning: {job} {never}\n")
    assert f"never_starts: {never}" in service.do("explain", job).stdout
    assert never in service.do("job", job).stdout
    assert service.ask("job", job)["waits"][0] == never
    assert service.do("cancel", job).returncode == 0


def test_a_job_is_submitted_by_its_type_alone_with_or_without_a_payload(service: House) -> None:
    job = submit(service, "--type", "resize", "--payload", '{"image": 7}')
    shown = service.ask("job", job)
    assert (shown["type"], shown["payload"], shown["run"]["kind"]) == ("resize", {"image": 7}, "python")
    plain = submit(service, "--type", "resize")
    assert service.do("cancel", job, plain).returncode == 0
    nothing = service.do("submit", "--payload", "1")
    assert (nothing.returncode, "--type" in nothing.stderr) == (exits.USAGE, True)


def test_a_state_that_there_is_not_is_answered_with_those_there_are(service: House) -> None:
    done = service.do("jobs", "--state", "foo")
    assert (done.returncode, done.stdout) == (exits.BAD_INPUT, "")
    assert "is not among blocked, queued, leased, running, completed, failed, expired, cancelled" in done.stderr


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_top_ends_with_q_as_with_ctrl_c_and_leaves_the_terminal_as_it_was(service: House, key: bytes) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    # a session of its own, whose terminal this is: only then does Ctrl-C reach it
    command = ["setsid", "--ctty", "--wait", sys.executable, "-m", "headgate", "top", "--interval", "30"]
    with subprocess.Popen(command, cwd=service.directory, stdin=theirs, stdout=theirs) as process:
        seen = b""
        while b"COMPLETED" not in seen:
            seen += os.read(ours, 65_536)
        os.write(ours, key)
        assert process.wait(PATIENCE) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)


def test_run_runs_in_the_directory_it_was_called_from(service: House) -> None:
    assert service.do("run", "--", "pwd").stdout.strip() == str(service.directory)


def test_run_ends_with_124_where_the_command_takes_too_long(service: House) -> None:
    done = service.do("run", "--timeout", "200ms", "--", "sleep", "30")
    assert done.returncode == exits.TIMED_OUT, done.stderr


def test_a_job_can_be_followed_from_its_id_to_its_output(service: House) -> None:
    job = submit(service, "--name", "greeting", "-p", "high", "-l", "team=a", "--", "echo", "hi")
    assert service.do("job", job, "--wait", "completed").returncode == 0
    assert service.do("job", job, "--logs").stdout == "hi\n"
    shown = service.ask("job", job)
    assert (shown["name"], shown["state"], shown["class"], shown["labels"]) == (
        "greeting",
        "completed",
        "high",
        {"team": "a"},
    )
    assert service.do("job", job, "--get", "result").stdout == '{"exit_code": 0}\n'
    listed = [each["id"] for each in service.ask("jobs", "--state", "completed", "--name", "greeting")["jobs"]]
    assert listed == [job]
    assert job in service.do("jobs").stdout


def test_many_jobs_come_from_a_file_all_or_none(service: House) -> None:
    jobs = [{"name": f"bulk-{n}", "run": {"kind": "command", "argv": ["true"]}} for n in range(3)]
    done = service.do("submit", "--file", "-", stdin="\n".join(map(json.dumps, jobs)))
    assert len(done.stdout.split()) == 3
    wrong = service.do("submit", "--file", "-", stdin=json.dumps([*jobs, {"untis": 3}]))
    assert (wrong.returncode, "did you mean 'units'" in wrong.stderr) == (exits.BAD_INPUT, True)


def test_the_same_key_submits_once(service: House) -> None:
    first = submit(service, "--key", "only-once", "--", "true")
    assert submit(service, "--key", "only-once", "--", "true") == first


def test_a_key_may_be_in_any_language_and_is_refused_by_name_where_it_cannot_be_sent(service: House) -> None:
    first = submit(service, "--key", "nur einmal \u2603", "--", "true")
    assert submit(service, "--key", "nur einmal \u2603", "--", "true") == first
    for key in ("\u2603", "two\nlines"):
        done = service.do("submit", "--key", key, "--file", "-", stdin="{}")
        assert done.returncode == exits.BAD_INPUT
        assert done.stderr == "headgate submit: Idempotency-Key: must be printable characters of Latin-1\n"


def test_a_waiting_job_is_explained_and_cancelled(service: House) -> None:
    job = submit(service, "-r", "gpu=1", "--", "true")
    why = service.do("explain", job)
    assert why.returncode == 0
    assert f"{job} is queued" in why.stdout
    assert "gpu" in why.stdout
    assert service.do("cancel", "--reason", "test", job).stdout == f"{job}\n"
    assert service.ask("job", job)["state"] == "cancelled"
    ended = submit(service, "--", "true")
    service.do("job", ended, "--wait", "completed")
    assert service.do("cancel", ended).returncode == exits.FAILED


def test_an_ended_job_can_be_submitted_again(service: House) -> None:
    job = submit(service, "--", "false")
    service.do("job", job, "--wait", "failed")
    again = service.do("retry", job).stdout.strip()
    assert again != job
    assert service.ask("job", again)["retry_of"] == job


def test_what_does_not_exist_is_66_and_what_is_wrong_65(service: House) -> None:
    for command in (["job", "nope"], ["explain", "nope"], ["cancel", "nope"], ["policy", "show", "nope"]):
        done = service.do(*command)
        assert done.returncode == exits.NOT_FOUND, command
        assert "nope" in done.stderr
    wrong = service.do("submit", "-p", "huge", "--", "true")
    assert (wrong.returncode, "priority" in wrong.stderr) == (exits.BAD_INPUT, True)


# -- who may --------------------------------------------------------------------------------------------------------


def test_the_token_is_kept_for_its_owner_only_and_needed(service: House) -> None:
    path = service.directory / ".headgate" / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert service.facts["open"] == f"{service.facts['url']}/#token={path.read_text().strip()}"
    refused = service.do("jobs", "--token", "wrong")
    assert refused.returncode == exits.FORBIDDEN


def test_a_worker_with_a_wrong_token_is_told_so_in_one_line(service: House) -> None:
    done = service.do("worker", "--token", "wrong")
    assert (done.returncode, done.stderr) == (exits.FORBIDDEN, "headgate worker: the bearer token is not valid\n")


def test_an_empty_token_is_no_request_for_another_one(service: House) -> None:
    refused = service.do("jobs", "--token", "")
    assert (refused.returncode, refused.stdout) == (exits.USAGE, "")
    assert "--token: is empty" in refused.stderr


def test_run_names_the_job_that_it_may_submit_but_not_follow(service: House) -> None:
    token = service.do("token", "create", "--scope", "submit", "--note", "writer").stdout.strip()
    refused = service.do("run", "--token", token, "--", "true")
    assert refused.returncode == exits.FORBIDDEN
    newest = service.ask("jobs", "--limit", "1")["jobs"][0]["id"]
    assert f"{newest} was submitted and goes on" in refused.stderr
    assert "needs the scope read" in refused.stderr


def test_a_token_with_fewer_rights_has_fewer_rights_until_it_is_revoked(service: House) -> None:
    token = service.do("token", "create", "--scope", "read", "--note", "reader").stdout.strip()
    assert service.do("jobs", "--token", token).returncode == 0
    assert service.do("submit", "--token", token, "--", "true").returncode == exits.FORBIDDEN
    listed = {each["note"]: each["id"] for each in service.ask("token", "list")["tokens"]}
    assert service.do("token", "revoke", listed["reader"]).returncode == 0
    assert service.do("jobs", "--token", token).returncode == exits.FORBIDDEN


# -- machines -------------------------------------------------------------------------------------------------------


def test_two_workers_are_there_and_everything_can_be_looked_at(service: House) -> None:
    workers = {worker["id"]: worker for worker in service.ask("workers")["workers"]}
    assert {"local-1", "local-2"} <= set(workers)
    for command in ("workers", "pools", "leases", "jobs"):
        assert service.do(command).returncode == 0
    assert service.do("tenants", "list").returncode == 0
    look = service.do("top", "--once").stdout
    assert "local-1" in look
    assert "0.0 of 10" in look
    assert service.ask("load")["busy"] == 0


def test_quotas_can_be_set_and_taken_away(service: House) -> None:
    assert service.do("tenants", "set", "lab", "weight=2", "max_queued=5").returncode == 0
    assert [t["max_queued"] for t in service.ask("tenants", "list")["tenants"] if t["id"] == "lab"] == [5]
    assert service.do("tenants", "remove", "lab").returncode == 0
    assert service.do("tenants", "set", "lab", "weight=much").returncode == exits.USAGE


# -- rules ----------------------------------------------------------------------------------------------------------


def test_a_policy_is_deployed_explains_itself_and_is_rolled_back(service: House) -> None:
    (service.directory / "wait.yaml").write_text(POLICY)
    deployed = service.do("policy", "deploy", "wait.yaml", "--why", "test")
    assert deployed.returncode == 0, deployed.stderr
    assert deployed.stdout.startswith("reports-wait@")
    version = service.ask("policy", "list")["active"]
    held = submit(service, "--type", "report", "--", "true")
    assert service.do("run", "--", "echo", "others run").stdout == "others run\n"
    why = service.ask("explain", held)
    assert "reports-wait" in json.dumps(why)
    assert service.do("policy", "show", version).stdout == POLICY
    assert service.do("policy", "diff", "wait.yaml").returncode == 0
    assert service.do("policy", "diff", "platform").returncode == exits.FAILED
    assert "the platform policy decides" in service.do("policy", "rollback").stdout
    assert service.do("job", held, "--wait", "completed").returncode == 0


def test_a_broken_policy_is_not_deployed(service: House) -> None:
    (service.directory / "broken.lua").write_text("function schedule(context) return 1 +\n")
    done = service.do("policy", "deploy", "broken.lua")
    assert done.returncode == exits.BAD_INPUT
    assert service.ask("policy", "list").get("active") is None


# -- upkeep ---------------------------------------------------------------------------------------------------------


def test_the_database_can_be_copied_and_compacted_while_the_service_runs(service: House) -> None:
    assert service.do("db", "backup", "copy.db").returncode == 0
    assert service.do("db", "verify", "copy.db").returncode == 0
    assert service.do("run", "--", "true").returncode == 0
    gone = service.ask("db", "compact", "--jobs", "0s", "--events", "0s")
    assert (gone["ok"], gone["jobs"] > 0, gone["journal"] > 0) == (True, True, True)
    assert service.do("run", "--", "true").returncode == 0


def test_bench_measures_and_leaves_nothing_behind(service: House) -> None:
    found = service.ask("bench", "--jobs", "5")
    assert min(found.values()) > 0
    assert service.ask("jobs", "--name", "bench-later", "--state", "queued")["jobs"] == []


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/metrics"])
def test_the_server_says_how_it_is(service: House, path: str) -> None:
    token = (service.directory / ".headgate" / "token").read_text().strip()
    with urlopen(Request(service.facts["url"] + path, headers={"Authorization": f"Bearer {token}"})) as answer:
        assert answer.status == 200


def test_a_shadow_and_an_experiment_from_the_command_line(service: House) -> None:
    (service.directory / "watch.yaml").write_text(POLICY)
    assert service.do("policy", "deploy", "watch.yaml", "--shadow").returncode == 0
    assert service.do("run", "--", "true").returncode == 0
    shown = service.do("policy", "shadow")
    assert (shown.returncode, "agrees:" in shown.stdout, "reports-wait@" in shown.stdout) == (0, True, True)
    started = service.do("policy", "experiment", "start", "fcfs", "--window", "1s", "--why", "try")
    assert (started.returncode, "(runs; arm " in started.stdout) == (0, True), started.stderr
    assert service.do("run", "--", "true").returncode == 0
    assert "experiment" in service.do("policy", "list").stdout
    status = service.do("policy", "experiment", "status")
    assert "B AGAINST A (95 % INTERVAL)" in status.stdout
    stopped = json.loads(service.do("policy", "experiment", "stop", "--json").stdout)
    assert (stopped["running"], stopped["a"]) == (False, "platform")
    assert service.do("policy", "experiment", "start").returncode == exits.USAGE


def test_what_if_forks_the_running_service(service: House) -> None:
    for n in range(3):
        submit(service, "--name", f"report-{n}", "--type", "shell", "--units", "1000000", "--", "true")
    (service.directory / "draft.yaml").write_text(POLICY)
    shown = service.do("sim", "whatif", "draft.yaml", "--for", "10m", "--scale", "2", "--arrivals", "none")
    assert (shown.returncode, shown.stderr) == (exits.DONE, "")
    assert "reports-wait" in shown.stdout or "draft against platform" in shown.stdout
    assert "2 times the machines" in shown.stdout
    found = json.loads(service.do("sim", "whatif", "--json").stdout)
    assert [side["policy"] for side in found["sides"]] == ["platform", "platform (2)"]
    (service.directory / "broken.lua").write_text("function schedule(\n")
    broken = service.do("sim", "whatif", "broken.lua")
    assert (broken.returncode, broken.stderr.splitlines()[0].startswith("broken.lua:2:")) == (exits.BAD_INPUT, True)
