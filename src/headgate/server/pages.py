"""Pages for people: sign in, and the status at a glance. They work without a script."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs

from headgate import views
from headgate.engine.questions import FindJobs
from headgate.ports import JobQuery, StoreError
from headgate.server import status_page, tokens
from headgate.server.gate import COOKIE, presented
from headgate.server.page import HTML, SIGN_IN_SCRIPT, page
from headgate.server.problems import Forbidden, Unauthorized
from headgate.server.routing import Call, Reply, Routes
from headgate.server.service import Service
from headgate.server.status import status_out
from headgate.wire.http import JobOut

routes = Routes()
_LONGEST_FORM = 4 << 10
"""Bytes: it is read before anybody is known."""
_MONTH = 30 * 24 * 3600
_MOST_WORKERS, _MOST_JOBS = 200, 20
_SIGN_IN = f"""
<p>This server asks for a token. The first one stands in the file <code>.headgate/token</code> where it was started;
<code>headgate up</code> prints an address that carries it.</p>
<form method="post" action="/login"><label>Token <input name="token" type="password" autocomplete="off"></label>
<button>Sign in</button></form>
<p><a href="/docs">API documentation</a></p><script>{SIGN_IN_SCRIPT}</script>
"""


@routes.add("GET", "/", replies={200: str}, media="text/html")
async def home(service: Service, call: Call) -> Reply:
    """The status at a glance, for people; it asks for a token first."""
    try:
        caller = _who(service, call)
        caller.allow(("read",))
    except (Unauthorized, Forbidden):
        return page("Headgate", _SIGN_IN)
    status = status_out(service, caller)
    workers = list(service.state.workers.values())[:_MOST_WORKERS]
    content = status_page.status_page(status, workers, await _latest(service, caller))
    return page("Headgate", content, note=status_page.note(status), refresh=True)


async def _latest(service: Service, caller: tokens.Caller) -> list[JobOut]:
    """The latest jobs; none where the store is the trouble, which the page says above."""
    tenants = () if caller.tenant is None else (caller.tenant,)
    try:
        found = await service.ask(FindJobs(JobQuery(tenants=tenants, limit=_MOST_JOBS)))
    except StoreError:
        return []
    return [views.job_out(job) for job in found]


def _who(service: Service, call: Call) -> tokens.Caller:
    if not service.settings.auth:
        return tokens.LOCAL
    return tokens.identify(service.state.documents, presented(call.headers, "GET"), service.now())


@routes.add("POST", "/login", replies={303: str, 401: str}, media="text/html", max_body=_LONGEST_FORM)
async def login(service: Service, call: Call) -> Reply:
    """Exchange a token from a form for a cookie that only this site's pages send."""
    text = (parse_qs(call.body.decode("latin-1")).get("token") or [""])[0].strip()
    try:
        tokens.identify(service.state.documents, text, service.now())
    except Unauthorized as error:
        service.log.info("refused", path="/login", code=error.code, remote=call.remote)
        return page("Headgate", f'<p class="bad">{escape(str(error))}</p>{_SIGN_IN}', status=401)
    secure = "; Secure" if call.headers.get(b"x-forwarded-proto") == b"https" else ""
    cookie = f"{COOKIE}={text}; Path=/; Max-Age={_MONTH}; HttpOnly; SameSite=Strict{secure}"
    return Reply(b"", 303, HTML, [(b"location", b"/"), (b"set-cookie", cookie.encode())])
