"""The description of the API as a page: every call, every message, every type, with links between them."""

from __future__ import annotations

from html import escape
from typing import Any

from headgate.server.page import page, table
from headgate.server.routing import Call, Reply, Routes
from headgate.server.service import Service
from headgate.views import running_version

routes = Routes()


@routes.add("GET", "/openapi.json", replies={200: dict[str, Any]})
async def openapi_json(service: Service, call: Call) -> Reply:
    """The description of this API, OpenAPI 3.1."""
    return Reply(service.description)


@routes.add("GET", "/docs", replies={200: str}, media="text/html")
async def docs(service: Service, call: Call) -> Reply:
    """The description of this API, as a page."""
    described: dict[str, Any] = service.description
    calls = "".join(
        _call(method, path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    )
    sockets = "".join(_socket(path, socket) for path, socket in described["x-websockets"].items())
    schemas = "".join(_schema(name, schema) for name, schema in sorted(described["components"]["schemas"].items()))
    intro = '<p>The same for programs: <a href="/openapi.json">openapi.json</a>.</p>'
    content = f"{intro}<h2>Calls</h2>{calls}<h2>WebSockets</h2>{sockets}<h2>Types</h2>{schemas}"
    return page(f"Headgate API {running_version()}", content)


def _call(method: str, path: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    takes = "".join(f"<p>Body: {_type(part['schema'])}</p>" for part in body.values())
    given = [(p["name"], p["in"], _words(p["schema"])) for p in operation["parameters"]]
    answers = [(status, answer["description"]) for status, answer in operation["responses"].items()]
    scopes = ", ".join(operation["x-scopes"]) or "none"
    return f"""<details id="{escape(operation["operationId"])}"><summary><code>{method.upper()} {escape(path)}</code>
{escape(operation["summary"])}</summary><p>Scopes, any of: {escape(scopes)}</p>
{table(("parameter", "in", "type"), given)}{takes}{table(("status", "means"), answers)}</details>"""


def _socket(path: str, socket: dict[str, Any]) -> str:
    receives = f"<p>Receives {_type(socket['receives'])}</p>" if socket["receives"] else ""
    return f"""<details><summary><code>WS {escape(path)}</code> {escape(socket["summary"])}</summary>
{receives}<p>Sends {_type(socket["sends"])}</p></details>"""


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [(field, _words(part)) for field, part in schema.get("properties", {}).items()]
    either = "" if "anyOf" not in schema else f"<p>{_type(schema)}</p>"
    text = escape(schema.get("description", ""))
    return f"""<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary><p>{text}</p>{either}
{table(("field", "type"), rows)}</details>"""


def _type(schema: dict[str, Any]) -> str:
    """A type with links to those it is made of."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"])
    return escape(_words(schema)) if "items" not in schema else "array of " + _type(schema["items"])


def _words(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_words(part) for part in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    kind = str(schema.get("type", "any"))
    return f"{kind} of {_words(schema['items'])}" if isinstance(schema.get("items"), dict) else kind
