"""Lua back to rules: exact for what the compiler wrote, a raw card for everything else.

The structured comments of a compiled policy say what its rules are. They are believed only if compiling them
again gives the same bytes: a text that was changed by hand becomes a raw card with nothing lost.
"""

from __future__ import annotations

import re

import msgspec

from headgate.policy.rules.compiler import FORMAT, compile_policy
from headgate.policy.rules.document import parse
from headgate.policy.rules.luatext import compact
from headgate.policy.rules.model import Always, LuaScript, Policy, Rule

_HEADER = re.compile(r"-- (policy|version|description): (.+)")
_SOURCE = re.compile(r"-- source: sha256 ([0-9a-f]{64})")
_RULE = re.compile(r"-- rule ([0-9]{1,9}): (.+)")
_FIELD = re.compile(r"-- (description|enabled|priority|when|then): (.+)")
_CARD = re.compile(r"lua (body|script), ([0-9]{1,9}) lines as they stand below")
_CARD_LINES_ABOVE = {"body": 2, "script": 3}
_KEYS = {"when": "condition", "then": "action"}
RAW_NAME = "imported-lua"
RAW_RULE = "raw-lua"


class Recovered(msgspec.Struct, frozen=True):
    """The policy behind a Lua text; `exact` when its rules were recovered, else it is one raw card."""

    policy: Policy
    exact: bool


def read_lua(source: str, name: str = RAW_NAME) -> Recovered:
    """The policy that a Lua text stands for; `name` is for a text that does not tell its own."""
    policy = _compiled_policy(source)
    if policy is not None:
        return Recovered(policy, exact=True)
    rule = Rule(RAW_RULE, Always(), LuaScript(source))
    return Recovered(Policy(name, (rule,)), exact=False)


def _compiled_policy(source: str) -> Policy | None:
    lines = source.split("\n")
    if FORMAT not in lines[:5]:
        return None
    header, sha256 = _header(lines[: lines.index(FORMAT)])
    if sha256 is None or "policy" not in header:
        return None
    rules = [text for _, text in sorted(_rules(lines), key=lambda pair: pair[0])]
    document = [f"name: {header['policy']}", *(f"{key}: {header[key]}" for key in header if key != "policy")]
    policy, _ = parse("{scheduler: {" + ", ".join([*document, f"rules: [{', '.join(rules)}]"]) + "}}")
    if policy is None or compile_policy(policy, sha256)[0] != source:
        return None
    return policy


def _header(lines: list[str]) -> tuple[dict[str, str], str | None]:
    found = [match for line in lines if (match := _HEADER.fullmatch(line))]
    source = next((match[1] for line in lines if (match := _SOURCE.fullmatch(line))), None)
    return {match[1]: match[2] for match in found}, source


def _rules(lines: list[str]) -> list[tuple[int, str]]:
    """(position, rule as JSON) for every rule whose comments can be read."""
    found: list[tuple[int, str]] = []
    at = 0
    while at < len(lines):
        start = _RULE.fullmatch(lines[at])
        at += 1
        if start is None:
            continue
        fields = {"name": start[2]}
        while at < len(lines) and (match := _FIELD.fullmatch(lines[at])):
            fields[_KEYS.get(match[1], match[1])] = match[2]
            at += 1
        at = _take_card(lines, at, fields)
        found.append((int(start[1]), "{" + ", ".join(f"{key}: {text}" for key, text in fields.items()) + "}"))
    return found


def _take_card(lines: list[str], at: int, fields: dict[str, str]) -> int:
    card = _CARD.fullmatch(fields.get("action", ""))
    if card is None:
        return at
    start = at + _CARD_LINES_ABOVE[card[1]]
    end = start + int(card[2])
    text = "\n".join(lines[start:end])
    fields["action"] = compact({"lua": text if card[1] == "body" else {"script": text}})
    return end
