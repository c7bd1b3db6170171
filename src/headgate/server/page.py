"""The frame of every page: its style, the one script that is allowed, and tables. Nothing comes from another site."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import Any

from headgate.server.routing import Reply

HTML = b"text/html; charset=utf-8"
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; --line: #8883; --soft: #8881; --quiet: #888;
  --calm: #2e7d5b; --warm: #b7791f; --hot: #c0392b; }
body { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
header { display: flex; align-items: baseline; gap: 1rem; border-bottom: 1px solid var(--line); }
header h1 { font-size: 1.4rem; margin: 0 0 .4rem; } header p { margin: 0; color: var(--quiet); }
h2 { font-size: 1rem; margin: 0 0 .6rem; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem; margin: 1rem 0; }
section { border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.2rem; background: var(--soft); }
section.wide { grid-column: 1 / -1; overflow-x: auto; }
.figure { margin: 0 0 .6rem; font-size: 2.2rem; font-weight: 600; line-height: 1.1; }
.figure small { font-size: 1rem; font-weight: 400; }
.calm { color: var(--calm); } .warm { color: var(--warm); } .hot { color: var(--hot); } .quiet { color: var(--quiet); }
.bad { border-left: .25rem solid var(--hot); padding: .4rem .8rem; margin: .6rem 0; background: var(--soft); }
table { border-collapse: collapse; width: 100%; } th { font-weight: 500; color: var(--quiet); }
th, td { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; }
meter { width: 100%; min-width: 6rem; } code { font-size: .9em; }
details { margin: .3rem 0; } summary { cursor: pointer; } pre { overflow: auto; }
input { font: inherit; width: 28rem; max-width: 100%; }
"""
# The address that `headgate up` prints carries the token in its fragment, which no server ever sees.
SIGN_IN_SCRIPT = (
    "const t=new URLSearchParams(location.hash.slice(1)).get('token');"
    "if(t){history.replaceState(null,'','/');const f=document.forms[0];f.token.value=t;f.submit();}"
)


def _hash(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'; script-src 'sha256-{_hash(SIGN_IN_SCRIPT)}'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# `no-referrer` would make browsers send `Origin: null` with the form, which is refused like any foreign page.
_HEADERS = [(b"content-security-policy", _POLICY.encode()), (b"referrer-policy", b"same-origin")]


def page(title: str, content: str, *, note: str = "", refresh: bool = False, status: int = 200) -> Reply:
    """A whole page; `content` and `note` are HTML already."""
    again = '<meta http-equiv="refresh" content="5">' if refresh else ""
    text = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>{again}
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>
<body><header><h1>{escape(title)}</h1><p>{note}</p></header>{content}</body></html>"""
    return Reply(text.encode(), status, HTML, _HEADERS)


def table(head: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> str:
    """A table; numbers stand at the right, and whatever is `Markup` is taken as it is."""
    lines = [list(row) for row in rows]
    if not lines:
        return ""
    names = "".join(f"<th{_side(value)}>{escape(name)}</th>" for name, value in zip(head, lines[0], strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{_side(value)}>{_text(value)}</td>" for value in row) + "</tr>" for row in lines
    )
    return f"<table><tr>{names}</tr>{body}</table>"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def _side(value: Any) -> str:
    return ' class="number"' if isinstance(value, int) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, Markup) else escape(str(value))
