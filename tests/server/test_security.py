"""Who may come in, from where, and what each may do."""

from __future__ import annotations

import hmac
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from headgate.core.errors import InvalidSettings
from headgate.server import tokens
from headgate.server.app import ROUTES
from headgate.server.settings import ServerSettings, check_server_settings
from tests.server.conftest import MakeWorld
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register, word
from tests.server.world import World


def jobs(world: World) -> int:
    return world.read(lambda state: len(state.jobs))


# -- hosts and origins --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1.nip.io:{port}", ""]
)
def test_a_foreign_host_is_refused_and_has_no_effect(world: World, host: str) -> None:
    named = host.replace("{port}", str(world.serving.port))
    with world.client() as client:
        problem(client.post("/v2/jobs", json={}, headers={"Host": named}), 403, "foreign_host")
        problem(client.get("/healthz", headers={"Host": named}), 403, "foreign_host")
    assert jobs(world) == 0


def test_every_name_of_loopback_is_answered_to(world: World) -> None:
    with world.client() as client:
        for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
            assert client.get("/v2/status", headers={"Host": f"{name}:{world.serving.port}"}).status_code == 200


def test_a_public_name_is_answered_to_where_it_is_set(make_world: MakeWorld) -> None:
    world = make_world(hosts=("jobs.example.org",), origins=("https://ops.example.org",))
    with world.client(headers={"Host": "jobs.example.org"}) as client:
        assert client.get("/v2/status").status_code == 200
        for origin in ("https://jobs.example.org", "https://ops.example.org"):
            assert client.post("/v2/jobs", json={}, headers={"Origin": origin}).status_code == 201


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost", "", "file://", "http://127.0.0.1:1"]
)
def test_a_foreign_origin_is_refused_and_has_no_effect(world: World, origin: str) -> None:
    with world.client() as client:
        problem(client.post("/v2/jobs", json={}, headers={"Origin": origin}), 403, "foreign_origin")
        problem(client.get("/v2/jobs", headers={"Origin": origin}), 403, "foreign_origin")
    assert jobs(world) == 0


def test_a_page_of_our_own_may_call(world: World) -> None:
    with world.client() as client:
        assert client.post("/v2/jobs", json={}, headers={"Origin": world.url}).status_code == 201


@pytest.mark.parametrize("path", ["/v2/live", "/v2/workers/w/stream"])
def test_a_foreign_websocket_is_refused_before_it_opens(world: World, path: str) -> None:
    for headers, status in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Authorization": "Bearer nothing"}, 401),
    ):
        token = None if "Authorization" in headers else ""
        with pytest.raises(InvalidStatus) as refused, world.socket(path, token, headers=headers):
            pass
        assert refused.value.response.status_code == status


def test_a_page_can_bring_its_token_as_a_protocol(world: World) -> None:
    with world.socket("/v2/live", None, subprotocols=["headgate", f"bearer.{world.token}"]) as talk:
        assert talk.connection.subprotocol == "headgate"
        assert talk.hear()["type"] == "snapshot"
    with pytest.raises(InvalidStatus), world.socket("/v2/live", None, subprotocols=["headgate", "bearer.x"]):
        pass


# -- tokens -------------------------------------------------------------------------------------------------------


def test_without_a_valid_token_nothing_can_be_done(world: World) -> None:
    good = world.token
    other = good[:-1] + ("a" if good[-1] != "a" else "b")
    wrong = ["", "Bearer", f"Bearer {good[:-1]}", f"Bearer {other}", f"Bearer {good}x", f"Basic {good}", "x"]
    with world.client(None) as client:
        for value in [*wrong, f"Bearer {good.split('_')[1]}", f"Bearer hg_{good.split('_')[1]}_"]:
            answer = client.post("/v2/jobs", json={}, headers={"Authorization": value})
            problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
        problem(client.post("/v2/jobs", json={}), 401, "unauthorized")
    assert jobs(world) == 0


def test_only_the_harmless_is_open_to_everybody() -> None:
    assert {route.path for route in ROUTES if not route.scopes} == {
        "/healthz", "/readyz", "/openapi.json", "/docs", "/", "/login",
    }  # fmt: skip


def test_each_scope_opens_its_own_calls(world: World) -> None:
    body: dict[str, Any] = {"json": {}}
    allowed = {
        "submit": ("POST", "/v2/jobs"),
        "work": ("POST", "/v2/workers"),
        "read": ("GET", "/v2/jobs"),
        "policy:edit": ("POST", "/v2/admin/scheduler/validate"),
        "policy:activate": ("POST", "/v2/admin/scheduler/rollback"),
        "admin": ("GET", "/v2/admin/tokens"),
    }
    for scope in tokens.SCOPES:
        with world.client(world.token_for(scope)) as client:
            for needed, (method, path) in allowed.items():
                answer = client.request(method, path, **({} if method == "GET" else body))
                if scope in (needed, "admin"):
                    assert answer.status_code not in (401, 403), (scope, path)
                else:
                    problem(answer, 403, "forbidden")


def test_a_token_for_drafts_cannot_put_one_in_charge(world: World) -> None:
    with world.client(world.token_for("policy:edit")) as client:
        body = {"language": "lua", "source": "x", "mode": "active"}
        problem(client.post("/v2/admin/scheduler/deploy", json=body), 403, "forbidden")


def test_tokens_are_made_listed_and_revoked(world: World) -> None:
    with world.client() as client:
        made = client.post("/v2/admin/tokens", json={"scopes": ["read"], "note": "n", "expires_in": "90d"}).json()
        secret = made["token"]
        assert made["expires_at"] > made["created_at"]
        with world.client(secret) as reader:
            assert reader.get("/v2/jobs").status_code == 200
        listed = client.get("/v2/admin/tokens")
        assert made["id"] in {token["id"] for token in listed.json()["tokens"]}
        assert secret not in listed.text
        assert client.delete(f"/v2/admin/tokens/{made['id']}").status_code == 204
        with world.client(secret) as reader:
            problem(reader.get("/v2/jobs"), 401, "unauthorized")
        problem(client.delete(f"/v2/admin/tokens/{made['id']}"), 404, "token_not_found")
        own = world.token.split("_")[1]
        problem(client.delete(f"/v2/admin/tokens/{own}"), 409, "conflict")
        wrong: list[dict[str, Any]] = [
            {"scopes": []},
            {"scopes": ["all"]},
            {"scopes": ["admin"], "tenant": "a"},
            {"scopes": ["read"], "expires_in": 0},
        ]
        for bad in wrong:
            problem(client.post("/v2/admin/tokens", json=bad), 400, "invalid_input")


def test_a_token_past_its_time_is_worthless(world: World) -> None:
    secret = tokens.new_secret()
    world.run(tokens.keep_token(world.engine, secret, ("read",), expires_at=1))
    with world.client(secret) as client:
        problem(client.get("/v2/jobs"), 401, "unauthorized")


def test_only_hashes_are_kept(world: World) -> None:
    secret = world.token_for("read")
    kept = world.read(lambda state: b"".join(body for (kind, _), body in state.documents.items() if kind == "token"))
    assert secret.rpartition("_")[2].encode() not in kept
    assert tokens.digest(secret) in kept


def test_tokens_are_compared_in_constant_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole digests of equal length are compared, also where there is no such token to compare with."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(tokens, "hmac", SimpleNamespace(compare_digest=compare))
    good, unknown = world.token, tokens.new_secret()
    for token in (good, good[:-1] + "~", unknown):
        with world.client(token) as client:
            client.get("/v2/jobs")
    assert [len(one) == len(other) == 32 for one, other in compared] == [True] * 3
    assert [one == other for one, other in compared] == [True, False, False]


def test_the_first_token_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"
    text = tokens.ensure_admin_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tokens.ensure_admin_token(path) == text
    path.chmod(0o644)
    with pytest.raises(InvalidSettings, match="can be read by others"):
        tokens.ensure_admin_token(path)
    path.chmod(0o600)
    path.write_text("nothing")
    with pytest.raises(InvalidSettings, match="holds no token"):
        tokens.ensure_admin_token(path)


def test_a_token_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "token").symlink_to(tmp_path / "real")
    with pytest.raises(OSError, match="symbolic links"):
        tokens.ensure_admin_token(tmp_path / "token")


# -- without authentication ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "10.0.0.1", ""])
def test_without_authentication_only_loopback_is_served(host: str) -> None:
    with pytest.raises(InvalidSettings, match="without authentication is refused"):
        check_server_settings(ServerSettings(host=host, auth=False))
    check_server_settings(ServerSettings(host=host, auth=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_loopback_may_be_served_without_authentication(host: str) -> None:
    check_server_settings(ServerSettings(host=host, auth=False))


def test_without_authentication_everything_else_is_still_checked(make_world: MakeWorld) -> None:
    world = make_world(auth=False)
    with world.client() as client:
        assert client.post("/v2/jobs", json={}).status_code == 201
        problem(client.post("/v2/jobs", json={}, headers={"Origin": "http://evil.example"}), 403, "foreign_origin")


# -- tenants ------------------------------------------------------------------------------------------------------


def test_a_tenant_sees_and_touches_only_its_own_jobs(world: World) -> None:
    a, b = (world.token_for("submit", "read", tenant=name) for name in ("a", "b"))
    with world.client(a) as mine, world.client(b) as theirs, world.client() as admin:
        job = submit(mine, name="secret")
        assert job["tenant"] == "a"
        path = f"/v2/jobs/{job['id']}"
        for method, tail in (("GET", ""), ("GET", "/events"), ("GET", "/explain"), ("GET", "/logs")):
            problem(theirs.request(method, path + tail), 404, "job_not_found")
        problem(theirs.post(f"{path}/cancel"), 404, "job_not_found")
        problem(theirs.post(f"{path}/retry"), 404, "job_not_found")
        problem(theirs.patch(path, json={"rank": 1}), 404, "job_not_found")
        assert theirs.get("/v2/jobs").json()["jobs"] == []
        assert theirs.get("/v2/jobs", params={"tenant": "a"}).json()["jobs"] == []
        problem(theirs.post("/v2/jobs", json={"tenant": "a"}), 403, "forbidden")
        problem(theirs.post("/v2/jobs", json={"dependencies": [job["id"]]}), 400, "unknown_dependency")
        problem(theirs.get("/v2/tenants/a"), 404, "tenant_not_found")
        assert [tenant["id"] for tenant in mine.get("/v2/tenants").json()["tenants"]] == ["a"]
        assert mine.post("/v2/jobs", json={"dependencies": [job["id"]]}).status_code == 201
        assert admin.get(path).status_code == 200


def test_a_tenant_cannot_work_for_others(world: World) -> None:
    token = world.token_for("work", "submit", "read", "policy:edit", tenant="a")
    with world.client(token) as bound, world.client() as admin:
        register(admin)
        submit(admin, tenant="b")
        problem(bound.post("/v2/workers", json={"id": "x"}), 403, "forbidden")
        problem(bound.post("/v2/leases", json={"worker_id": "w"}), 403, "forbidden")
        problem(bound.get("/v2/admin/decisions"), 403, "forbidden")
        lease = claim(admin)["lease"]
        problem(word(bound, lease, "start"), 403, "forbidden")
        assert bound.get("/v2/leases").json()["leases"] == []
        assert bound.get("/v2/workers").json()["workers"][0].get("leases", []) == []
        theirs = submit(admin, tenant="b", run={"kind": "external"})["id"]
        problem(bound.post("/v2/leases", json={"worker_id": "x", "job_id": theirs}), 404, "job_not_found")
        own = submit(bound, run={"kind": "external"})["id"]
        found = bound.post("/v2/leases", json={"worker_id": "x", "job_id": own, "wait_s": 5}).json()["lease"]
        assert word(bound, found, "start").status_code == 200


# -- pages --------------------------------------------------------------------------------------------------------


def test_the_status_page_asks_for_a_token_and_then_shows_the_figures(world: World) -> None:
    with world.client(None) as browser, world.client() as admin:
        register(admin, "<script>alert(1)</script>")
        first = browser.get("/")
        assert "Sign in" in first.text
        assert "Capacity" not in first.text
        form = {"token": world.token}
        wrong = browser.post("/login", data={"token": "x"})
        assert (wrong.status_code, "Sign in" in wrong.text) == (401, True)
        answer = browser.post("/login", data=form, headers={"Origin": world.url})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        page = browser.get("/")
        for text in ("Busy rating", "Capacity", "Queue", "Workers", "/docs"):
            assert text in page.text
        assert "<script>alert" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert browser.get("/v2/status").status_code == 200
        problem(browser.post("/v2/jobs", json={}), 401, "unauthorized")
        assert browser.post("/v2/jobs", json={}, headers={"Origin": world.url}).status_code == 201


@pytest.mark.parametrize(
    "path", ["/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/docs/../../x", "//etc/passwd", "/static/..%2f"]
)
def test_no_file_can_be_reached_by_a_path(world: World, path: str) -> None:
    with world.raw("GET", path) as raw:
        assert raw.recv(100).startswith(b"HTTP/1.1 404")


# -- the audit ----------------------------------------------------------------------------------------------------


def test_who_did_what_is_kept(world: World) -> None:
    with world.client() as client, world.client(world.token_for("submit", "read")) as other:
        job_id = submit(other)["id"]
        other.post(f"/v2/jobs/{job_id}/cancel")
        client.put("/v2/tenants/lab", json={"weight": 2})
        client.put("/v2/tenants/lab", json={"weight": -1})
        entries = client.get("/v2/admin/audit").json()["entries"]
        acts = [(entry["call"], entry["target"], entry["status"]) for entry in entries]
        assert ("cancel_job", {"id": job_id}, 200) in acts
        assert ("set_tenant", {"id": "lab"}, 200) in acts
        assert ("set_tenant", {"id": "lab"}, 400) in acts
        assert {entry["remote"] for entry in entries} == {"127.0.0.1"}
        own = client.get("/v2/admin/audit", params={"who": world.token.split("_")[1]}).json()["entries"]
        assert {entry["call"] for entry in own} == {"set_tenant"}
        first = client.get("/v2/admin/audit", params={"limit": 1}).json()
        rest = client.get("/v2/admin/audit", params={"after": first["next"]}).json()["entries"]
        assert [*first["entries"], *rest] == entries


def test_no_secret_reaches_the_log(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    with world.client() as client:
        client.get("/v2/jobs", headers={"Authorization": f"Bearer {world.token}x"})
        client.post("/v2/admin/tokens", json={"scopes": ["read"]})
    out, err = capfd.readouterr()
    assert world.token not in out + err
