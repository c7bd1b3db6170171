"""The route table: which call does what, who may make it, and what goes in and comes out. OpenAPI is drawn from it."""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from headgate.core.errors import InvalidInput
from headgate.server.problems import MethodNotAllowed, NoRoute
from headgate.server.strict import wrong_field
from headgate.server.tokens import Caller, Scope

if TYPE_CHECKING:
    from headgate.server.service import Service

LONGEST_NAME = 256
H = TypeVar("H")


class Urgency(IntEnum):
    """Who is served last when there is too much: the first is never turned away."""

    VITAL = 0
    CLAIM = 1
    SUBMIT = 2
    LOOK = 3


class Reply(msgspec.Struct):
    """An answer: a struct or bytes, with its status."""

    content: Any
    status: int = 200
    media: bytes = b"application/json"
    headers: list[tuple[bytes, bytes]] = []


class Call:
    """A request that has passed the gate."""

    __slots__ = ("body", "caller", "gone", "headers", "params", "query", "remote", "route", "waited")

    def __init__(
        self, route: Route, params: dict[str, str], query: Any, headers: Mapping[bytes, bytes], caller: Caller
    ) -> None:
        self.route = route
        self.params = params
        self.query = query
        self.headers = headers
        self.caller = caller
        self.body = b""
        self.remote = ""
        self.waited = False
        """Whether it waited for something to happen: then its time says nothing of the server."""
        self.gone: Callable[[], Awaitable[None]] | None = None
        """Waits until the client is gone."""

    def __getitem__(self, name: str) -> str:
        return self.params[name]


Handler = Callable[["Service", Call], Awaitable[Reply]]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "WS"]


class Route(msgspec.Struct, frozen=True):
    """One call."""

    method: Method
    path: str
    handler: Any
    scopes: tuple[Scope, ...]
    """Any one of these; none: open to everybody."""
    body: Any = None
    replies: dict[int, Any] = {}
    query: Any = None
    urgency: Urgency = Urgency.LOOK
    audit: bool = False
    tenants: bool = True
    """Whether a token that is bound to a tenant may make this call."""
    optional_body: bool = False
    max_body: int | None = None
    """Bytes of a body, where fewer are enough than anywhere else."""
    media: str = "application/json"
    headers: tuple[str, ...] = ()
    """Request headers that mean something to this call."""

    @property
    def name(self) -> str:
        """The name of the call in descriptions and metrics."""
        return str(self.handler.__name__)

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def segments(self) -> list[str]:
        """The parts of the path."""
        return self.path.strip("/").split("/")


class Routes:
    """Routes of one subject, collected by decorators."""

    def __init__(self) -> None:
        self.all: list[Route] = []

    def add(self, method: Method, path: str, *scopes: Scope, **options: Any) -> Callable[[H], H]:
        """Enter a handler."""

        def enter(handler: H) -> H:
            self.all.append(Route(method, path, handler, scopes, **options))
            return handler

        return enter


class Table:
    """Finds the route of a path: exact paths by one look, others by their segments."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = routes
        self._exact: dict[str, dict[str, Route]] = {}
        self._by_length: dict[int, list[tuple[list[str], dict[str, Route]]]] = {}
        for route in routes:
            self._enter(route)

    def _enter(self, route: Route) -> None:
        if "{" not in route.path:
            self._exact.setdefault(route.path, {})[route.method] = route
            return
        same = self._by_length.setdefault(len(route.segments), [])
        for segments, methods in same:
            if segments == route.segments:
                methods[route.method] = route
                return
        same.append((route.segments, {route.method: route}))

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route and its parameters; `NoRoute` or `MethodNotAllowed` if there is none."""
        methods, params = self._methods(path)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(name for name in methods if name != "WS")
            raise MethodNotAllowed(f"{method} is not possible here; {allowed or 'a WebSocket'} is", allow=allowed)
        return route, params

    def _methods(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        exact = self._exact.get(path)
        if exact is not None:
            return exact, {}
        parts = path.strip("/").split("/") if path.startswith("/") and not path.endswith("/") else []
        for segments, methods in self._by_length.get(len(parts), ()):
            params = _match(segments, parts)
            if params is not None:
                return methods, params
        raise NoRoute(f"there is no call {path[:LONGEST_NAME]!r}")


def _match(segments: list[str], parts: list[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for segment, part in zip(segments, parts, strict=True):
        if segment[0] == "{":
            params[segment[1:-1]] = _name(segment[1:-1], part)
        elif segment != part:
            return None
    return params


def _name(field: str, part: str) -> str:
    name = unquote(part)
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or "\ufffd" in name:
        raise NoRoute(f"{field}: is not a name that anything here could have")
    return name


def read_query(kind: Any, text: bytes) -> Any:
    """The query of a call as its type; several values may be separated by commas or given again."""
    if kind is None:
        if text:
            raise InvalidInput("this call takes no query")
        return None
    pairs = _pairs(text)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields and "tuple" in str(fields[name].type):
            given.setdefault(name, []).extend(part for part in value.split(",") if part)
        elif name in given:
            raise InvalidInput("is given twice", field=name[:LONGEST_NAME])
        else:
            given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        refused = wrong_field(error)
        name = str(refused.field).partition("[")[0]
        choices = _choices(fields[name].type) if name in fields else []
        if not choices or "enum" not in str(error):
            raise refused from None
        raise InvalidInput(f"{given[name]!r} is not among {', '.join(choices)}", field=name) from None


def _choices(kind: Any) -> list[str]:
    """The words that a field takes, where it takes only some."""
    if typing.get_origin(kind) is typing.Literal:
        return list(typing.get_args(kind))
    return [word for part in typing.get_args(kind) for word in _choices(part)]


def _pairs(text: bytes) -> list[tuple[str, str]]:
    if not text:
        return []
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except (UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(f"the query cannot be read: {error}") from None
    if any("\0" in value or "\0" in name for name, value in pairs):
        raise InvalidInput("the query contains a NUL character")
    return pairs
