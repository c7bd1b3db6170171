"""Plain data to YAML text, in the style of the examples: used for new rules and changed values."""

from __future__ import annotations

import re
from typing import Any

from headgate.policy.rules.luatext import compact
from headgate.policy.rules.model import Policy
from headgate.policy.rules.plain import policy_data
from headgate.policy.rules.tree import plain_value
from headgate.policy.rules.vocabulary import OPERATORS

_PLAIN = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./ -]*[A-Za-z0-9_])?")
# other YAML readers take these for booleans
_MISREAD = frozenset({"y", "n", "yes", "no", "on", "off"})
_NOT_IN_BLOCKS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
STEP = "  "


def to_yaml(policy: Policy) -> str:
    """A policy as a document of its own."""
    return "\n".join(mapping_lines(policy_data(policy), "")) + "\n"


def scalar_text(value: Any, style: str = "") -> str:
    """A scalar on one line, in the given quoting style where it can carry the value."""
    if not isinstance(value, str):
        return compact(value)
    if style == '"' or not _is_plain(value):
        return f"'{value}'" if style == "'" and _fits_single_quotes(value) else compact(value)
    return f"'{value}'" if style == "'" else value


def flow_text(value: Any) -> str:
    """Any value on one line."""
    if isinstance(value, dict):
        inner = ", ".join(f"{scalar_text(key)}: {flow_text(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(flow_text(item) for item in value)}]"
    return scalar_text(value)


def mapping_lines(mapping: dict[str, Any], indent: str) -> list[str]:
    """The lines of a block mapping."""
    return [line for key, value in mapping.items() for line in entry_lines(key, value, indent)]


def entry_lines(key: str, value: Any, indent: str) -> list[str]:
    """The lines of one entry of a block mapping."""
    inline, below = value_parts(value, indent)
    return [f"{indent}{scalar_text(key)}:{inline}", *below]


def item_lines(value: Any, indent: str) -> list[str]:
    """The lines of one item of a block sequence; `indent` is that of the dash."""
    if not isinstance(value, dict) or not value:
        return [f"{indent}- {flow_text(value)}"]
    lines = mapping_lines(value, indent + STEP)
    return [f"{indent}- {lines[0].removeprefix(indent + STEP)}", *lines[1:]]


def value_parts(value: Any, indent: str) -> tuple[str, list[str]]:
    """What follows `key:` on its line, and the lines below it."""
    if isinstance(value, str) and _fits_block(value):
        chomp = "" if value.endswith("\n") else "-"
        lines = value.removesuffix("\n").split("\n")
        return f" |{chomp}", [f"{indent}{STEP}{line}" if line else "" for line in lines]
    if isinstance(value, dict) and value and not set(value) <= set(OPERATORS):
        return "", mapping_lines(value, indent + STEP)
    if isinstance(value, list | tuple) and any(isinstance(item, dict | list) for item in value):
        return "", [line for item in value for line in item_lines(item, indent + STEP)]
    return f" {flow_text(value)}", []


def _is_plain(text: str) -> bool:
    return (
        _PLAIN.fullmatch(text) is not None
        and isinstance(plain_value(text), str)
        and text.lower() not in _MISREAD
        and "  " not in text
    )


def _fits_single_quotes(text: str) -> bool:
    return "'" not in text and "\n" not in text and "\r" not in text and not _NOT_IN_BLOCKS.search(text)


def _fits_block(text: str) -> bool:
    if "\n" not in text.rstrip("\n") and len(text) < 60:
        return text.endswith("\n") and bool(text.strip()) and _block_safe(text)
    return "\n" in text and _block_safe(text)


def _block_safe(text: str) -> bool:
    # a block cannot begin with white space without saying how deep it is indented, nor end in several breaks
    if text.startswith((" ", "\n", "\t")) or text.endswith("\n\n"):
        return False
    return not _NOT_IN_BLOCKS.search(text)
