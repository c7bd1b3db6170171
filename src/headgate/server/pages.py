"""Pages for people: the status at a glance and the description of the API. They need no script and no other site."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import parse_qs

from headgate.server import tokens
from headgate.server.gate import COOKIE, presented
from headgate.server.problems import Forbidden, Unauthorized
from headgate.server.routing import Call, Reply, Routes
from headgate.server.service import Service
from headgate.server.status import status_out
from headgate.views import running_version
from headgate.wire.http import StatusOut

routes = Routes()
HTML = b"text/html; charset=utf-8"
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.bad { color: #b3261e; font-weight: 600; } code { font-size: .9em; } meter { width: 14rem; }
details { margin: .3rem 0; } summary { cursor: pointer; } pre { overflow: auto; }
input { font: inherit; width: 28rem; max-width: 100%; }
"""
# The address that `headgate up` prints carries the token in its fragment, which no server ever sees.
_SCRIPT = (
    "const t=new URLSearchParams(location.hash.slice(1)).get('token');"
    "if(t){history.replaceState(null,'','/');const f=document.forms[0];f.token.value=t;f.submit();}"
)
_HASH = b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_STYLE_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; script-src 'sha256-{_HASH}'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [(b"content-security-policy", _POLICY.encode()), (b"referrer-policy", b"no-referrer")]
_MONTH = 30 * 24 * 3600


@routes.add("GET", "/", replies={200: str}, media="text/html")
async def home(service: Service, call: Call) -> Reply:
    """The status at a glance, for people; it asks for a token first."""
    try:
        _who(service, call).allow(("read",))
    except (Unauthorized, Forbidden):
        return _page("Headgate", _SIGN_IN)
    return _page("Headgate", _status(status_out(service), service), refresh=True)


def _who(service: Service, call: Call) -> tokens.Caller:
    if not service.settings.auth:
        return tokens.LOCAL
    return tokens.identify(service.state.documents, presented(call.headers, "GET"), service.now())


@routes.add("POST", "/login", replies={303: str}, media="text/html")
async def login(service: Service, call: Call) -> Reply:
    """Exchange a token from a form for a cookie that only this site's pages send."""
    text = (parse_qs(call.body.decode("latin-1")).get("token") or [""])[0].strip()
    tokens.identify(service.state.documents, text, service.now())
    secure = "; Secure" if call.headers.get(b"x-forwarded-proto") == b"https" else ""
    cookie = f"{COOKIE}={text}; Path=/; Max-Age={_MONTH}; HttpOnly; SameSite=Strict{secure}"
    return Reply(b"", 303, HTML, [(b"location", b"/"), (b"set-cookie", cookie.encode())])


_SIGN_IN = f"""
<p>This server asks for a token. The first one stands in the file <code>.headgate/token</code> where it was started;
<code>headgate up</code> prints an address that carries it.</p>
<form method="post" action="/login"><label>Token <input name="token" type="password" autocomplete="off"></label>
<button>Sign in</button></form>
<p><a href="/docs">API documentation</a></p><script>{_SCRIPT}</script>
"""


def _status(status: StatusOut, service: Service) -> str:
    capacity = status.capacity
    worst = "".join(f'<p class="bad">{escape(text)}</p>' for text in status.degraded)
    busy = f'<meter min="0" max="10" low="4" high="8" optimum="0" value="{capacity.busy:.2f}"></meter>'
    units = [(name, getattr(capacity, f"{name}_units")) for name in ("total", "usable", "leased", "free")]
    workers = [(w.id, w.shown_status, len(w.leases), w.spec.slots) for w in service.state.workers.values()]
    deciding = status.policy.get("deciding") or "built-in"
    return f"""
{worst}
<h2>Busy rating</h2><p>{busy} {capacity.busy:.1f} of 10</p>
{_table(("signal", "rated"), sorted((name, f"{value:.1f}") for name, value in capacity.signals.items()))}
{"".join(f"<p>{escape(reason)}</p>" for reason in capacity.reasons)}
<h2>Capacity</h2>{_table(("units", ""), units)}
<h2>Queue</h2>{_table(("ready", "jobs"), status.ready_by_class.items())}
{_table(("state", "jobs"), status.jobs.items())}
<h2>Workers</h2>{_table(("worker", "status", "leases", "slots"), workers[:200]) if workers else "<p>None yet.</p>"}
<h2>Policy</h2><p>{escape(str(deciding))} decides.</p>
<h2>More</h2><p><a href="/docs">API documentation</a> · <a href="/openapi.json">openapi.json</a> ·
<a href="/v2/status">status as JSON</a> · <a href="/v2/jobs">jobs as JSON</a> · <a href="/metrics">metrics</a></p>
<p>Headgate {escape(status.version)}, epoch {status.epoch}</p>
"""


def _table(head: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>" if body else ""


def _cell(value: Any) -> str:
    return f'<td class="number">{value}</td>' if isinstance(value, int) else f"<td>{escape(str(value))}</td>"


def _page(title: str, content: str, *, refresh: bool = False) -> Reply:
    again = '<meta http-equiv="refresh" content="10">' if refresh else ""
    page = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>{again}
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>
<body><h1>{escape(title)}</h1>{content}</body></html>"""
    return Reply(page.encode(), media=HTML, headers=_HEADERS)


# -- the description of the API -----------------------------------------------------------------------------------


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
    return _page(f"Headgate API {running_version()}", content)


def _call(method: str, path: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    takes = "".join(f"<p>Body: {_type(part['schema'])}</p>" for part in body.values())
    given = [(p["name"], p["in"], _words(p["schema"])) for p in operation["parameters"]]
    answers = [(status, answer["description"]) for status, answer in operation["responses"].items()]
    scopes = ", ".join(operation["x-scopes"]) or "none"
    return f"""<details id="{escape(operation["operationId"])}"><summary><code>{method.upper()} {escape(path)}</code>
{escape(operation["summary"])}</summary><p>Scopes, any of: {escape(scopes)}</p>
{_table(("parameter", "in", "type"), given)}{takes}{_table(("status", "means"), answers)}</details>"""


def _socket(path: str, socket: dict[str, Any]) -> str:
    receives = f"<p>Receives {_type(socket['receives'])}</p>" if socket["receives"] else ""
    return f"""<details><summary><code>WS {escape(path)}</code> {escape(socket["summary"])}</summary>
{receives}<p>Sends {_type(socket["sends"])}</p></details>"""


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [(field, _words(part)) for field, part in schema.get("properties", {}).items()]
    either = "" if "anyOf" not in schema else f"<p>{_type(schema)}</p>"
    text = escape(schema.get("description", ""))
    return f"""<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary><p>{text}</p>{either}
{_table(("field", "type"), rows)}</details>"""


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
