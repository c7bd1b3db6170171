"""Every call with every scope, drawn from the route table: a new call is asked these questions too."""

from __future__ import annotations

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from headgate.server.app import ROUTES
from headgate.server.routing import Route
from headgate.server.tokens import SCOPES, Scope
from tests.server.test_jobs import problem
from tests.server.world import World

CLOSED = [route for route in ROUTES if route.scopes]
FOR_TENANTS = {
    "POST /v2/jobs",
    "GET /v2/jobs",
    "GET /v2/jobs/{id}",
    "GET /v2/jobs/{id}/events",
    "GET /v2/jobs/{id}/explain",
    "GET /v2/jobs/{id}/logs",
    "POST /v2/jobs/{id}/cancel",
    "POST /v2/jobs/{id}/retry",
    "PATCH /v2/jobs/{id}",
    "GET /v2/leases",
    "POST /v2/leases",
    "POST /v2/leases/{id}/start",
    "POST /v2/leases/{id}/heartbeat",
    "POST /v2/leases/{id}/progress",
    "POST /v2/leases/{id}/complete",
    "POST /v2/leases/{id}/fail",
    "POST /v2/leases/{id}/release",
    "GET /v2/workers",
    "GET /v2/workers/{id}",
    "GET /v2/pools",
    "GET /v2/pools/{id}",
    "GET /v2/tenants",
    "GET /v2/tenants/{id}",
    "GET /v2/models",
    "GET /v2/models/{id}",
    "GET /v2/status",
    "GET /v2/capacity",
    "POST /v2/admin/scheduler/validate",
    "GET /v2/admin/scheduler/templates",
    "GET /v2/admin/scheduler/platform-source",
    "WS /v2/live",
}
"""The calls that a token bound to a tenant can make; `test_tenants` shows that none of them tells of others."""


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def ask(world: World, route: Route, token: str | None) -> tuple[int, httpx.Response | None]:
    """The status of a call on something that does not exist."""
    path = route.path.replace("{id}", "none-of-yours")
    if route.method == "WS":
        try:
            with world.socket(path, token):
                return 101, None
        except InvalidStatus as refused:
            return refused.response.status_code, None
    with world.client(token) as client:
        answer = client.request(route.method, path, json=None if route.method == "GET" else {})
    return answer.status_code, answer


@pytest.fixture(scope="module")
def tokens_of(shared_world: World) -> dict[Scope, str]:
    return {scope: shared_world.token_for(scope) for scope in SCOPES}


@pytest.mark.parametrize("route", CLOSED, ids=name)
def test_a_scope_opens_the_calls_it_is_named_for_and_no_other(
    shared_world: World, tokens_of: dict[Scope, str], route: Route
) -> None:
    for scope, token in tokens_of.items():
        status, answer = ask(shared_world, route, token)
        if scope == "admin" or scope in route.scopes:
            assert status not in (401, 403, 500), scope
        else:
            assert status == 403, scope
            if answer is not None:
                problem(answer, 403, "forbidden")


@pytest.mark.parametrize("route", CLOSED, ids=name)
def test_without_a_token_no_call_is_open(shared_world: World, route: Route) -> None:
    assert ask(shared_world, route, None)[0] == 401


def test_what_a_tenant_may_call_was_thought_about() -> None:
    """A new call is open to tenants or it is not: whoever adds one says so here."""
    admin_only = [route for route in CLOSED if set(route.scopes) == {"admin"}]
    assert {name(route) for route in CLOSED if route.tenants and route not in admin_only} == FOR_TENANTS


def test_a_token_of_a_tenant_opens_those_calls_and_no_other(shared_world: World) -> None:
    scopes = [scope for scope in SCOPES if scope != "admin"]
    token = shared_world.token_for(*scopes, tenant="a")
    for route in CLOSED:
        status, _ = ask(shared_world, route, token)
        assert (status != 403) == (name(route) in FOR_TENANTS), name(route)
        assert status != 500, name(route)


def test_what_is_open_to_everybody_never_fails(shared_world: World) -> None:
    with shared_world.client(None) as client:
        for route in ROUTES:
            if not route.scopes:
                status = client.request(route.method, route.path).status_code
                assert status in (*route.replies, 400), route.path
