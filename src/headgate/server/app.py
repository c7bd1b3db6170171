"""The ASGI application: 1. Host and Origin, 2. who asks, 3. whether there is room, 4. the body, 5. the call."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import msgspec

from headgate.core.errors import HeadgateError
from headgate.engine.aio import AsyncEngine
from headgate.policy.managing import Policies
from headgate.ports import Ids
from headgate.server import (
    admin,
    api_page,
    cluster,
    feed,
    jobs,
    leases,
    pages,
    policies,
    simulating,
    status,
    stream,
    tokens,
    trials,
    workers,
)
from headgate.server.audit import Entry
from headgate.server.gate import presented
from headgate.server.intake import Receive
from headgate.server.openapi import describe
from headgate.server.problems import MEDIA, ClientGone, Forbidden, problem_of
from headgate.server.routing import Call, Reply, Route, Table, read_query
from headgate.server.service import Service
from headgate.server.sessions import NO_TOKEN
from headgate.server.settings import ServerSettings, check_server_settings
from headgate.server.simulations import Simulator
from headgate.server.sockets import Send, Socket, short
from headgate.server.wires import EXTENSION
from headgate.views import running_version

Scope = MutableMapping[str, Any]
ROUTES = [
    route
    for subject in (
        jobs,
        leases,
        workers,
        cluster,
        status,
        policies,
        simulating,
        trials,
        admin,
        feed,
        stream,
        pages,
        api_page,
    )
    for route in subject.routes.all
]
_encode = msgspec.json.Encoder().encode
_COMMON = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
_FORBIDDEN, _NOT_FOUND = 4403, 4404
_CLOSE_CODES = {401: NO_TOKEN, 403: _FORBIDDEN, 404: _NOT_FOUND}


class App:
    """Answers requests with the help of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.table = Table(ROUTES)
        service.description = describe(ROUTES, running_version())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Speak ASGI."""
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.service.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.service.stop()
        await send({"type": "lifespan.shutdown.complete"})

    # -- requests -----------------------------------------------------------------------------------------------

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.service.start()
        loop = asyncio.get_running_loop()
        began = loop.time()
        route: Route | None = None
        call: Call | None = None
        try:
            route, call = self._admit(scope, scope["method"])
            reply = await self._answer(route, call, scope, receive)
        except HeadgateError as error:
            reply = _refusal(error)
            if isinstance(error, ClientGone):
                return
            if reply.status in (401, 403):
                self._refused(scope, error)
        except Exception as error:
            self.service.log.exception("bug", call=route.name if route else scope["path"][:256])
            reply = _refusal(error)
        self._count(route, reply.status, None if call is not None and call.waited else loop.time() - began)
        await _send(reply, scope["method"], send)

    def _refused(self, scope: Scope, error: HeadgateError) -> None:
        self.service.log.info("refused", path=scope["path"][:256], code=error.code, remote=_remote(scope))

    def _admit(self, scope: Scope, method: str) -> tuple[Route, Call]:
        service = self.service
        raw: list[tuple[bytes, bytes]] = scope["headers"]
        headers = dict(raw)
        service.gate.check(headers, raw, (scope.get("server") or ("", 0))[1] or 0)
        route, params = self.table.find(method, _path(scope))
        caller = tokens.ANYBODY
        if route.scopes:
            caller = tokens.LOCAL
            if service.settings.auth:
                caller = tokens.identify(service.state.documents, presented(headers, method), service.now())
                self._allow(caller, route, params, _remote(scope))
        call = Call(route, params, read_query(route.query, scope["query_string"]), headers, caller)
        call.remote = _remote(scope)
        return route, call

    def _allow(self, caller: tokens.Caller, route: Route, params: dict[str, str], remote: str) -> None:
        """Whether the caller may; where acts are noted, so is the attempt."""
        try:
            caller.allow(route.scopes, tenants=route.tenants)
        except Forbidden as error:
            if route.audit:
                status = problem_of(error).status
                self.service.audit.jot(Entry(caller.name, route.name, params, status, remote, error.code))
            raise

    async def _answer(self, route: Route, call: Call, scope: Scope, receive: Receive) -> Reply:
        service, intake = self.service, self.service.intake
        intake.admit(route.urgency)
        if scope["method"] not in ("GET", "HEAD"):
            call.body = await intake.read(receive, call.headers, route.max_body)
        call.gone = _Gone(receive)
        intake.inside += 1
        try:
            reply: Reply = await route.handler(service, call)
            if route.audit:
                await service.audit.note(_entry(route, call, reply.status))
        except Exception as error:
            if route.audit:
                problem = problem_of(error)
                service.audit.jot(_entry(route, call, problem.status, problem.code))
            raise
        finally:
            intake.inside -= 1
        return reply

    def _count(self, route: Route | None, code: int, took: float | None) -> None:
        self.service.metrics.answered("unknown" if route is None else route.name, code, took)

    # -- sockets ------------------------------------------------------------------------------------------------

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        service.start()
        await receive()
        try:
            route, call = self._admit(scope, "WS")
            service.intake.admit(route.urgency)
        except HeadgateError as error:
            self._count(None, problem_of(error).status, None)
            self._refused(scope, error)
            await _refuse_socket(error, scope, send)
            return
        wire = scope["extensions"][EXTENSION]
        socket = Socket(wire, receive, send, call.caller, call.params, call.query, service.settings.write_timeout)
        socket.offered = list(scope.get("subprotocols") or ())
        service.sessions.enter(socket)
        try:
            await route.handler(service, socket)
        except ClientGone:
            return
        except HeadgateError as error:
            await socket.close(1011, str(error))
        except Exception:
            service.log.exception("bug", call=route.name)
            await socket.close(1011, "something went wrong in the server")
        finally:
            service.sessions.leave(socket)


class _Gone:
    """Waits until the client is gone."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    async def __call__(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _entry(route: Route, call: Call, status: int, problem: str = "") -> Entry:
    return Entry(call.caller.name, route.name, call.params, status, call.remote, problem)


def _remote(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _path(scope: Scope) -> str:
    raw = scope.get("raw_path")
    return raw.decode("latin-1") if raw else str(scope["path"])


def _refusal(error: Exception) -> Reply:
    problem = problem_of(error)
    headers = []
    if problem.retry_after_ms is not None:
        headers.append((b"retry-after", str(max(1, -(-problem.retry_after_ms // 1000))).encode()))
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.status == 405:
        headers.append((b"allow", str(problem.extra.get("allow", "")).encode()))
    if problem.status in (408, 413, 415):
        headers.append((b"connection", b"close"))
    return Reply(problem, problem.status, MEDIA, headers)


async def _send(reply: Reply, method: str, send: Send) -> None:
    body = reply.content if isinstance(reply.content, bytes) else _encode(reply.content)
    headers = [(b"content-length", str(len(body)).encode()), *_COMMON, *reply.headers]
    if reply.status != 204:
        headers.append((b"content-type", reply.media))
    else:
        headers.pop(0)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


async def _refuse_socket(error: HeadgateError, scope: Scope, send: Send) -> None:
    """Before a WebSocket is open, a refusal is an ordinary answer where the server can give one."""
    reply = _refusal(error)
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send(
            {"type": "websocket.close", "code": _CLOSE_CODES.get(reply.status, 1008), "reason": short(str(error))}
        )
        return
    headers = [(b"content-type", MEDIA), *reply.headers]
    await send({"type": "websocket.http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": _encode(reply.content)})


def make_app(
    engine: AsyncEngine,
    policies: Policies | None,
    settings: ServerSettings,
    *,
    ids: Ids,
    simulator: Simulator | None = None,
) -> App:
    """The application around a running engine. `ids` names new jobs; without a simulator nothing is simulated."""
    return App(Service(engine, policies, check_server_settings(settings), ids, simulator))
