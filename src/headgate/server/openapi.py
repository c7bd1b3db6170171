"""The description of the API, drawn from the route table: OpenAPI 3.1 with the messages of the WebSockets."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from headgate.server.routing import Route
from headgate.wire import http as w
from headgate.wire import stream as m

_REF = "#/components/schemas/{name}"
_ALWAYS = {
    "400": "The request is wrong; `field` names where.",
    "403": "A foreign Host or Origin, or a token without the scope.",
    "408": "The request took too long to arrive.",
    "413": "The body is too large.",
    "503": "Too much is going on, or the store cannot commit; see Retry-After.",
    "507": "The disk is full; see Retry-After.",
}
_WITH_AUTH = {"401": "A valid bearer token is needed."}
_WITH_NAME = {"404": "There is no such thing, or not for this token."}
_CHANGING = {
    "409": "The state does not allow it; `stale_lease` means: stop the work.",
    "429": "The queue or a quota is full.",
}
_MESSAGES = {
    "WorkerMessage": m.WorkerMessage,
    "ServerMessage": m.ServerMessage,
    "LiveMessage": m.LiveMessage,
    "WatcherMessage": m.WatcherMessage,
}


def describe(routes: list[Route], version: str) -> dict[str, Any]:
    """The whole document."""
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.method != "WS":
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headgate",
            "version": version,
            "description": "A programmable, resource-aware job scheduler.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
        "x-websockets": {route.path: _websocket(route) for route in routes if route.method == "WS"},
    }


class _Schemas:
    """Schemas of every type that travels, as references into one set of components."""

    def __init__(self, routes: list[Route]) -> None:
        types = [w.Problem, *_MESSAGES.values()]
        for route in routes:
            types += [part for kind in (route.body, *route.replies.values()) for part in _parts(kind)]
        found, components = msgspec.json.schema_components(types, ref_template=_REF)
        self._by_type = list(zip(types, found, strict=True))
        self.components: dict[str, Any] = {name: _tidy(schema) for name, schema in components.items()}
        for name, union in _MESSAGES.items():
            self.components[name] = _tidy(self.of(union))

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type; a tuple is one of several."""
        if isinstance(kind, tuple):
            return {"anyOf": [self.of(part) for part in kind]}
        for known, schema in self._by_type:
            if known == kind:
                tidy: dict[str, Any] = _tidy(schema)
                return tidy
        raise LookupError(f"{kind} does not travel")


def _parts(kind: Any) -> tuple[Any, ...]:
    if kind is None:
        return ()
    return kind if isinstance(kind, tuple) else (kind,)


def _tidy(schema: Any) -> Any:
    """Unbounded integers are bounded here: what is longer is refused as JSON already."""
    if isinstance(schema, list):
        return [_tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {name: _tidy(part) for name, part in schema.items()}
    if tidy.get("type") == "integer" and "maximum" not in tidy and "enum" not in tidy:
        tidy |= {"minimum": tidy.get("minimum", -(2**53)), "maximum": 2**63 - 1}
    return tidy


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    answers = {str(status): _answer(route, kind, schemas) for status, kind in route.replies.items()}
    problems = _ALWAYS | (_WITH_AUTH if route.scopes else {}) | (_WITH_NAME if "{" in route.path else {})
    if route.method != "GET":
        problems |= _CHANGING | _WITH_NAME
    problem = {"application/problem+json": {"schema": schemas.of(w.Problem)}}
    for status, text in problems.items():
        answers.setdefault(status, {"description": text, "content": problem})
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [_tag(route)],
        "parameters": _parameters(route),
        "responses": dict(sorted(answers.items())),
        "security": [{"bearer": []}] if route.scopes else [],
        "x-scopes": list(route.scopes),
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas.of(route.body)}}
        described["requestBody"] = {"required": not route.optional_body, "content": content}
    return described


def _tag(route: Route) -> str:
    parts = route.segments
    return parts[1] if parts[0] == "v2" and len(parts) > 1 else "server"


def _answer(route: Route, kind: Any, schemas: _Schemas) -> dict[str, Any]:
    if kind is None:
        return {"description": "Done."}
    text = (getattr(kind, "__doc__", None) or "The answer.").strip().partition("\n")[0]
    if kind is w.Problem:
        return {"description": text, "content": {"application/problem+json": {"schema": schemas.of(kind)}}}
    schema = {"type": "string"} if kind is str else schemas.of(kind)
    return {
        "description": "The answer." if isinstance(kind, tuple) else text,
        "content": {route.media: {"schema": schema}},
    }


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in re.findall(r"{(\w+)}", route.path):
        schema = {"type": "string", "minLength": 1, "maxLength": 256}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    for header in route.headers:
        schema = {"type": "string", "minLength": 1, "maxLength": 200}
        found.append({"name": header, "in": "header", "required": False, "schema": schema})
    if route.query is not None:
        found += _query(route.query)
    return found


def _query(kind: Any) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([kind], ref_template=_REF)
    schema = components[kind.__name__]
    required = schema.get("required", [])
    found = []
    for name, part in schema["properties"].items():
        parameter = {"name": name, "in": "query", "required": name in required, "schema": _optional(_tidy(part))}
        found.append(parameter | ({"style": "form", "explode": False} if part.get("type") == "array" else {}))
    return found


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that may be left out is not therefore null."""
    kinds = [part for part in schema.get("anyOf", []) if part != {"type": "null"}]
    if len(kinds) == 1:
        return {**{name: part for name, part in schema.items() if name not in ("anyOf", "default")}, **kinds[0]}
    return schema


def _websocket(route: Route) -> dict[str, Any]:
    worker = "stream" in route.path
    return {
        "summary": route.summary,
        "scopes": list(route.scopes),
        "parameters": _parameters(route),
        "receives": {"$ref": _REF.format(name="WorkerMessage" if worker else "WatcherMessage")},
        "sends": {"$ref": _REF.format(name="ServerMessage" if worker else "LiveMessage")},
    }
