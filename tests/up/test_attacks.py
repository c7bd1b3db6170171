"""Attacks on a running `headgate up`: files, logs, pages, the terminal, and what stands in names and filters."""

import contextlib
import json
import os
import pty
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register, word
from tests.up.house import QUICK, House, house, until

INJECTIONS = [
    "'; DROP TABLE jobs; --",
    "' OR '1'='1",
    '" OR ""="',
    "x') UNION SELECT * FROM documents --",
    "%",
    "_",
    "\\",
    "100%",
    "a_b",
    "[a-z]*",
    "$1",
    "?",
    ":name",
]
CONTROL = "\x1b]0;owned\x07\x1b[2J\rforged"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A service without workers, started by somebody careless about permissions, that logs what it can."""
    directory = tmp_path_factory.mktemp("attacked")
    before = os.umask(0)
    flags = (*QUICK, "--workers", "0", "--set", "log.level=debug", "--set", "log.format=text")
    try:
        with house(directory, *flags) as made:
            os.umask(before)
            yield made
    finally:
        os.umask(before)


def token(home: House) -> str:
    return (home.directory / ".headgate" / "token").read_text(encoding="utf-8").strip()


def client_of(home: House, secret: str | None = None) -> httpx.Client:
    headers = {"authorization": f"Bearer {secret or token(home)}"}
    return httpx.Client(base_url=home.facts["url"], headers=headers, timeout=20, trust_env=False)


def on_terminal(home: House, *arguments: str) -> str:
    """What a command shows where its standard output is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "headgate", *arguments]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    environment = {**outside, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, cwd=home.directory, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while more := os.read(ours, 65_536):
                seen += more
        process.wait(60)
    os.close(ours)
    return seen.decode().replace("\r\n", "\n")


# -- files --------------------------------------------------------------------------------------------------------


def test_nobody_else_can_read_what_it_keeps(home: House) -> None:
    directory = home.directory / ".headgate"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for name in ("token", "url", "headgate.db", "headgate.db-wal", "headgate.db-shm"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600, name
    for path in directory.iterdir():
        assert not stat.S_IMODE(path.stat().st_mode) & 0o022, path


def test_it_listens_on_this_machine_only_and_asks_for_a_token(home: House) -> None:
    assert urlsplit(home.facts["url"]).hostname == "127.0.0.1"
    with httpx.Client(base_url=home.facts["url"], trust_env=False) as stranger:
        problem(stranger.get("/v2/jobs"), 401, "unauthorized")
        problem(stranger.post("/v2/jobs", json={}), 401, "unauthorized")
    assert home.facts["open"] == f"{home.facts['url']}/#token={token(home)}"


def test_the_token_stands_in_no_file_but_its_own(home: House) -> None:
    secret = token(home).rpartition("_")[2].encode()
    holding = [path.name for path in home.directory.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert holding == ["token"]


# -- logs ---------------------------------------------------------------------------------------------------------


def test_no_token_reaches_the_log_wherever_it_was_put(home: House) -> None:
    secret = token(home)
    with client_of(home) as client, client_of(home, secret + "x") as wrong:
        client.get("/v2/jobs", params={"token": secret})
        client.get(f"/v2/{secret}")
        client.get(f"/v2/jobs/{secret}")
        client.get("/v2/jobs", headers={"Cookie": f"headgate_token={secret}", "X-Api-Key": secret})
        wrong.get(f"/v2/jobs/{secret}")
        client.post("/login", data={"token": secret + "y"})
        made = client.post("/v2/admin/tokens", json={"scopes": ["read"], "note": secret}).json()["token"]
        wrong.get(f"/{made}")
    address = home.facts["url"].replace("http://", "ws://")
    for path in (f"/v2/live?token={secret}", f"/{secret}"):
        with pytest.raises(InvalidStatus), connect(address + path, subprotocols=[Subprotocol(f"bearer.{secret}x")]):
            pass
    said = home.said()
    assert "refused" in said
    assert secret.rpartition("_")[2] not in said
    assert made.rpartition("_")[2] not in said


def test_no_control_character_reaches_the_log(home: House) -> None:
    with client_of(home, "hg_0_" + "x" * 40) as stranger, client_of(home) as client:
        stranger.get("/v2/jobs/%1b%5d0;owned%07%0aforged%0d%c2%9b1A")
        register(client, "drained")
        answer = client.post("/v2/workers/drained/drain", json={"reason": CONTROL + "\n2026 [info] forged"})
        assert answer.status_code == 200
        client.delete("/v2/workers/drained")
    said = until(lambda: "worker-removed" in (found := home.said()) and found)
    assert "owned" in said
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", said)
    assert not any(line.startswith(("forged", "2026 [info]")) for line in said.splitlines())


# -- the terminal -------------------------------------------------------------------------------------------------


def test_what_a_job_says_does_not_steer_the_terminal_of_whoever_looks(home: House) -> None:
    with client_of(home) as client:
        problem(client.post("/v2/jobs", json={"name": CONTROL}), 400, "invalid_job")
        register(client, labels={"place": "term"})
        job = submit(client, {"requires": {"place": "term"}, "payload": CONTROL})["id"]
        lease = claim(client)["lease"]
        word(client, lease, "start")
        word(client, lease, "progress", note=CONTROL, log=f"one\n{CONTROL}\ntwo\n\x1b[32mgreen\x1b[0m\n")
        error = {"code": "x", "message": CONTROL, "traceback": CONTROL}
        assert word(client, lease, "fail", error=error, retry=False).status_code == 200
    for arguments in (["job", job], ["job", job, "--logs"], ["job", job, "--events"], ["jobs"], ["job", job, "--json"]):
        shown = on_terminal(home, *arguments)
        rest = re.sub("\x1b\\[[0-9;]*m", "", shown)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", rest), arguments
    logs = on_terminal(home, "job", job, "--logs")
    assert "\\x1b]0;owned\\x07" in logs
    assert "\x1b[32mgreen\x1b[0m" in logs
    assert CONTROL in home.do("job", job, "--logs").stdout.replace("\n", "\r")  # a pipe gets what was said


# -- pages --------------------------------------------------------------------------------------------------------


def test_no_page_contains_markup_that_others_wrote(home: House) -> None:
    bad = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
    with client_of(home) as client:
        register(client, bad, pool=bad)
        submit(client, {"name": bad, "tenant": bad, "type": bad})
        page = client.get("/")
        client.delete(f"/v2/workers/{httpx.URL(bad).raw_path.decode().lstrip('/')}")
    assert "&lt;script&gt;" in page.text
    for markup in ("<script>alert", "<img"):
        assert markup not in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


# -- SQL and paths ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", INJECTIONS)
def test_sql_in_names_and_filters_is_text(home: House, text: str) -> None:
    with client_of(home) as client:
        job = submit(client, {"name": f"<{text}>", "tenant": text, "type": text, "labels": {text: text}})
        assert (job["name"], job["tenant"]) == (f"<{text}>", text)
        other = submit(client, {"name": "plain", "tenant": "plain", "type": "plain"})["id"]
        for query in ({"name": f"<{text}>"}, {"tenant": text}, {"type": text}):
            found = client.get("/v2/jobs", params=query)
            assert found.status_code == 200
            ids = {each["id"] for each in found.json()["jobs"]}
            assert job["id"] in ids, query
            assert other not in ids, query
        again = client.post("/v2/jobs", json={}, headers={"Idempotency-Key": text.strip()}).json()["id"]
        assert client.post("/v2/jobs", json={}, headers={"Idempotency-Key": text.strip()}).json()["id"] == again
        assert client.get(f"/v2/tenants/{_quoted(text)}").json()["id"] == text


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


@pytest.mark.parametrize("text", INJECTIONS)
def test_sql_in_orders_cursors_and_kinds_is_refused(home: House, text: str) -> None:
    with client_of(home) as client:
        for name in ("order", "after", "limit", "state", "class", "created_from"):
            answer = client.get("/v2/jobs", params={name: text})
            assert answer.status_code == 400, (name, answer.text)
            assert answer.json()["code"] == "invalid_input"
        assert client.get("/v2/events", params={"type": text}).json()["events"] == []
        assert client.get("/v2/admin/audit", params={"who": text}).json()["entries"] == []
        assert client.get("/v2/admin/decisions", params={"job": text}).json()["decisions"] == []


@pytest.mark.parametrize(
    "path",
    [
        "/../token",
        "/.headgate/token",
        "/%2e%2e/%2e%2e/.headgate/token",
        "/..%2f..%2f.headgate%2ftoken",
        "/docs/../../.headgate/token",
        "/docs/..%5c..%5c.headgate%5ctoken",
        "/v2/jobs/..%2f..%2f..%2fetc%2fpasswd",
        "/v2/jobs/..%2f..%2f..%2fetc%2fpasswd/logs",
        "/v2/admin/scheduler/templates/..%2f..%2fetc%2fpasswd",
        "/static/%00/etc/passwd",
        "//etc/passwd",
        "/etc/passwd",
    ],
)
def test_no_file_can_be_reached_by_a_path(home: House, path: str) -> None:
    with client_of(home) as client:
        url = httpx.URL(home.facts["url"]).copy_with(raw_path=path.encode())
        answer = client.get(url)
        assert answer.status_code == 404, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert token(home) not in answer.text


def test_no_file_of_the_server_can_be_named_by_a_policy_or_a_simulation(home: House) -> None:
    """Names of policies and workloads are looked up among what was deployed, never on the disk."""
    secret = token(home)
    with client_of(home) as client:
        for name in ("../../.headgate/token", str(home.directory / ".headgate" / "token"), "/etc/passwd"):
            for answer in (
                client.get("/v2/admin/scheduler/simulate", params={"policy": name}),
                client.get("/v2/admin/scheduler/simulate", params={"model": name}),
                client.post("/v2/admin/scheduler/simulate", json={"policy": {"name": name}}),
                client.post("/v2/admin/scheduler/simulate", json={"workload": {"kind": "upload", "text": name}}),
                client.post(
                    "/v2/admin/scheduler/validate", json={"language": "lua", "source": f'return require("{name}")'}
                ),
                client.post(
                    "/v2/admin/scheduler/validate", json={"language": "lua", "source": f'return io.open("{name}")'}
                ),
            ):
                assert answer.status_code in (200, 400, 404, 429), answer.text
                assert secret not in answer.text
                assert "root:" not in answer.text


# -- the gate -----------------------------------------------------------------------------------------------------


def test_a_foreign_host_page_or_socket_reaches_nothing(home: House) -> None:
    before = len(home.ask("jobs", "--limit", "1000")["jobs"])
    with client_of(home) as client:
        problem(client.post("/v2/jobs", json={}, headers={"Host": "evil.example"}), 403, "foreign_host")
        problem(client.post("/v2/jobs", json={}, headers={"Origin": "http://evil.example"}), 403, "foreign_origin")
    address = home.facts["url"].replace("http://", "ws://") + "/v2/live"
    bearer = {"Authorization": f"Bearer {token(home)}"}
    foreign = Origin("http://evil.example")
    with pytest.raises(InvalidStatus) as refused, connect(address, origin=foreign, additional_headers=bearer):
        pass
    assert refused.value.response.status_code == 403
    assert len(home.ask("jobs", "--limit", "1000")["jobs"]) == before


def test_a_cookie_counts_only_for_pages_of_this_server(home: House) -> None:
    """Cookies know no ports: a page of another service on this machine would bring ours along."""
    with httpx.Client(base_url=home.facts["url"], trust_env=False, cookies={"headgate_token": token(home)}) as browser:
        assert browser.get("/v2/jobs").status_code == 200
        assert browser.get("/v2/jobs", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        for site in ("same-site", "cross-site"):
            problem(browser.get("/v2/jobs", headers={"Sec-Fetch-Site": site}), 401, "unauthorized")
            problem(browser.get("/v2/admin/scheduler/simulate", headers={"Sec-Fetch-Site": site}), 401, "unauthorized")


def test_what_was_refused_is_in_the_audit_too(home: House) -> None:
    with client_of(home) as admin:
        made = admin.post("/v2/admin/tokens", json={"scopes": ["work"]}).json()
        with client_of(home, made["token"]) as worker:
            problem(worker.put("/v2/tenants/lab", json={"weight": 9}), 403, "forbidden")
            problem(worker.post("/v2/admin/tokens", json={"scopes": ["admin"]}), 403, "forbidden")
        admin.delete("/v2/tenants/lab")  # its own entry is durable when it is answered, and so are those before it
        entries = admin.get("/v2/admin/audit", params={"who": made["id"]}).json()["entries"]
    assert [(each["call"], each["status"]) for each in entries] == [("set_tenant", 403), ("create_token", 403)]
    assert made["token"] not in json.dumps(entries)


def test_the_audit_cannot_be_written_over_the_api(home: House) -> None:
    with client_of(home) as admin:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert admin.request(method, "/v2/admin/audit").status_code == 405
        before = admin.get("/v2/admin/audit").json()["entries"]
        admin.put("/v2/tenants/audited", json={"weight": 1})
        after = admin.get("/v2/admin/audit").json()["entries"]
    assert after[: len(before)] == before
    assert after[-1]["call"] == "set_tenant"


def test_the_audit_survives_a_kill(tmp_path: Path) -> None:
    with house(tmp_path, *QUICK, "--workers", "0") as home:
        with client_of(home) as admin:
            admin.put("/v2/tenants/lab", json={"weight": 9})
            assert admin.get("/v2/admin/audit").json()["entries"][-1]["call"] == "set_tenant"
        home.process.kill()
        home.process.wait()
    with house(tmp_path, *QUICK, "--workers", "0") as home, client_of(home) as admin:
        assert "set_tenant" in [each["call"] for each in admin.get("/v2/admin/audit").json()["entries"]]


def test_the_server_may_open_many_files_and_its_workers_as_many_as_before(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = min(soft, 1_024)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        with house(tmp_path, *QUICK, "--workers", "1") as home:
            worker = until(lambda: home.ask("workers")["workers"])[0]
            pids = (home.process.pid, int(worker["labels"]["pid"]))
            ours, theirs = (resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] for pid in pids)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert theirs == few
    assert ours > few or hard == few
