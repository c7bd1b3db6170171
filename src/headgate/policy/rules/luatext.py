"""Lua source as text: literals, names, comments."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from headgate.policy.rules.condition_reader import SIZE
from headgate.policy.rules.model import Value

_UNSAFE = re.compile(r'[\x00-\x1f\x7f"\\]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quoted(text: str) -> str:
    """A Lua string literal on one line."""
    return f'"{_UNSAFE.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\{ord(found[0]):03d}"


def literal(value: Value) -> str:
    """A Lua literal for a value of the YAML document."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else repr(value)


def number(value: Value) -> str:
    """Like `literal`, where the field is a number: sizes become products."""
    found = SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return literal(value)
    amount, unit = found.groups()  # the units are globals of the Lua contract
    return f"{amount} * {unit}"


def identifier(name: str, taken: set[str]) -> str:
    """A function name that resembles a rule's name and is not taken yet; it is then."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "_", ascii_only.lower()).strip("_")[:60]
    base = f"rule_{words or 'unnamed'}"
    chosen, attempt = base, 2
    while chosen in taken:
        chosen, attempt = f"{base}_{attempt}", attempt + 1
    taken.add(chosen)
    return chosen


def compact(data: Any) -> str:
    """JSON on one line, for structured comments; also valid YAML."""
    text = json.dumps(data, ensure_ascii=False, separators=(", ", ": "))
    # characters that end a line or vanish somewhere are spelled out
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)
