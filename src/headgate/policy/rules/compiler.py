"""YAML policies to readable Lua: the same source always gives the same bytes.

Layout of the output: a header, the shared functions that are needed, one block per rule in the order in which
rules are tried, and `schedule`. The comments above each rule say all that the rule says, in JSON, so that the
reader can recover the policy from the Lua alone.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock

import msgspec

from headgate.policy.rules.diagnostics import Diagnostic, PolicySourceError
from headgate.policy.rules.document import DEFAULT_LIMITS, Reading, decode, read
from headgate.policy.rules.luatext import compact, identifier
from headgate.policy.rules.model import LuaBody, LuaScript, Policy, Rule
from headgate.policy.rules.plain import action_data, condition_data
from headgate.policy.rules.prelude import closure
from headgate.policy.rules.rule_writer import RuleWriter

FORMAT = "-- compiled by headgate, rules format 1: change the YAML rather than this text"
_CACHE_SIZE = 128

_SCHEDULE = """\
function schedule(context)
  local seen = {}  -- what one rule looks up in this call, the next need not
  for i = 1, #rules do
    local answer = rules[i].ask(context, seen)
    if answer ~= nil then
      if trace then trace("rule " .. rules[i].name) end  -- for the decision's path through the rules
      return answer
    end
  end
  return platform.schedule(context)  -- no rule answered
end
"""


class RuleLines(msgspec.Struct, frozen=True):
    """Where a rule stands, first and last line: in the YAML and in the Lua."""

    yaml: tuple[int, int]
    lua: tuple[int, int]


class Compiled(msgspec.Struct, frozen=True):
    """The Lua of a policy; `sha256` is the hash of the YAML source."""

    name: str
    version: str | None
    lua: str
    sha256: str
    source_map: dict[str, RuleLines]
    warnings: tuple[Diagnostic, ...] = ()


class CompileCache:
    """Keeps the latest results by content hash; safe to share between threads."""

    def __init__(self, size: int = _CACHE_SIZE) -> None:
        self._size = size
        self._results: OrderedDict[str, Compiled] = OrderedDict()
        self._lock = Lock()

    def compile(self, source: str | bytes) -> Compiled:
        text, problem = decode(source)
        if problem is not None:
            raise PolicySourceError([problem])
        key = source_hash(text)
        with self._lock:
            known = self._results.get(key)
            if known is not None:
                self._results.move_to_end(key)
                return known
        return self._keep(key, _compile(text, key))

    def _keep(self, key: str, result: Compiled) -> Compiled:
        with self._lock:
            self._results[key] = result
            while len(self._results) > self._size:
                self._results.popitem(last=False)
        return result


_shared = CompileCache()


def compile_source(source: str | bytes) -> Compiled:
    """The Lua of a YAML policy; raises `PolicySourceError` with the diagnostics when it has errors."""
    return _shared.compile(source)


def source_hash(text: str) -> str:
    """The content hash of a source; lone surrogates hash too, to be refused later with a position."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def compile_policy(policy: Policy, sha256: str) -> tuple[str, dict[str, tuple[int, int]]]:
    """The Lua of a policy, and the lines of each rule in it."""
    taken: set[str] = set()
    needs: set[str] = set()
    blocks: list[tuple[str, list[str]]] = []
    for position, rule in policy.ordered():
        lines = _comments(position, rule)
        if rule.enabled:
            writer = RuleWriter(rule, identifier(rule.name, taken))
            lines += writer.write()
            needs |= writer.needs
        blocks.append((rule.name, lines))
    return _assemble(_header(policy, sha256), closure(needs), blocks)


def _compile(text: str, sha256: str) -> Compiled:
    reading: Reading = read(text, DEFAULT_LIMITS)
    if reading.policy is None:
        raise PolicySourceError(reading.diagnostics)
    lua, lua_lines = compile_policy(reading.policy, sha256)
    source_map = {name: RuleLines(reading.rule_lines[name], lines) for name, lines in lua_lines.items()}
    return Compiled(reading.policy.name, reading.policy.version, lua, sha256, source_map, reading.diagnostics)


def _header(policy: Policy, sha256: str) -> list[str]:
    lines = [f"-- policy: {compact(policy.name)}"]
    if policy.version is not None:
        lines.append(f"-- version: {compact(policy.version)}")
    if policy.description is not None:
        lines.append(f"-- description: {compact(policy.description)}")
    return [*lines, f"-- source: sha256 {sha256}", FORMAT]


def _comments(position: int, rule: Rule) -> list[str]:
    lines = [f"-- rule {position + 1}: {compact(rule.name)}"]
    if rule.description is not None:
        lines.append(f"-- description: {compact(rule.description)}")
    if not rule.enabled:
        lines.append("-- enabled: false")
    lines.append(f"-- priority: {rule.priority}")
    lines.append(f"-- when: {compact(condition_data(rule.condition))}")
    lines.append(f"-- then: {_action_comment(rule)}")
    return lines


def _action_comment(rule: Rule) -> str:
    action = rule.action
    if rule.enabled and isinstance(action, LuaBody | LuaScript):
        kind = "lua body" if isinstance(action, LuaBody) else "lua script"
        return f"{kind}, {action.source.count(chr(10)) + 1} lines as they stand below"
    return compact(action_data(action))


def _assemble(
    header: list[str], prelude: list[str], blocks: list[tuple[str, list[str]]]
) -> tuple[str, dict[str, tuple[int, int]]]:
    lines = [*header, ""]
    for section in prelude:
        lines += [*section.split("\n"), ""]
    lines += ["local rules = {}", ""]
    places: dict[str, tuple[int, int]] = {}
    for name, block in blocks:
        places[name] = (len(lines) + 1, len(lines) + len(block))
        lines += [*block, ""]
    return "\n".join(lines) + "\n" + _SCHEDULE, places
