"""Reads a policy document: text in, a typed policy and diagnostics out, never an exception."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from headgate.policy.rules.action_reader import read_action
from headgate.policy.rules.condition_reader import read_condition
from headgate.policy.rules.diagnostics import Diagnostic, Notes, nearest, shown
from headgate.policy.rules.model import Policy, Rule, is_catch_all
from headgate.policy.rules.tree import Limits, Mapping, Node, Scalar, Sequence, compose
from headgate.policy.rules.vocabulary import DOCUMENT_KEYS, RULE_KEYS

DEFAULT_LIMITS = Limits()
LONGEST_NAME = 200
LARGEST_PRIORITY = 1_000_000_000
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}(-[0-9A-Za-z.-]{1,64})?(\+[0-9A-Za-z.-]{1,64})?")


class Reading(msgspec.Struct, frozen=True):
    """What was read: the policy unless there are errors, and the lines of each of its rules."""

    policy: Policy | None
    diagnostics: tuple[Diagnostic, ...]
    rule_lines: dict[str, tuple[int, int]] = {}


def parse(source: str | bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[Policy | None, list[Diagnostic]]:
    """The policy in `source`, or None, with everything there is to say about it."""
    reading = read(source, limits)
    return reading.policy, list(reading.diagnostics)


def read(source: str | bytes, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Like `parse`, with the lines of the rules."""
    text, problem = decode(source, limits)
    if problem is not None:
        return Reading(None, (problem,))
    notes = Notes(text)
    root = compose(text, notes, limits)
    if root is None:
        return Reading(None, tuple(notes.found))
    reader = _DocumentReader(text, notes)
    policy = reader.policy(root)
    found = tuple(sorted(notes.found, key=lambda note: (note.line, note.column)))
    return Reading(None if notes.failed else policy, found, reader.rule_lines)


def decode(source: str | bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[str, Diagnostic | None]:
    """Text without its byte order mark; refuses by size before anything is scanned."""
    size = len(source) if isinstance(source, bytes) or len(source) > limits.max_bytes else _encoded(source)
    if size > limits.max_bytes:
        return "", Diagnostic("too-large", f"the source is larger than {limits.max_bytes} bytes", 1, 1)
    if isinstance(source, str):
        return source.removeprefix("\ufeff"), None
    try:
        return source.decode("utf-8").removeprefix("\ufeff"), None
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        return "", Diagnostic("not-utf8", f"byte {error.start} is not UTF-8 text", line, 1)


def _encoded(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


class _DocumentReader:
    def __init__(self, text: str, notes: Notes) -> None:
        self._text, self._notes = text, notes
        self.rule_lines: dict[str, tuple[int, int]] = {}

    def policy(self, root: Node) -> Policy | None:
        body = self._scheduler(root)
        if body is None:
            return None
        fields = self._fields(body, DOCUMENT_KEYS, ("name", "rules"), "scheduler")
        name = self._name(fields.get("name"), "scheduler.name")
        version = self._version(fields.get("version"))
        description = self._description(fields.get("description"), "scheduler.description")
        rules = self._rules(fields.get("rules"))
        if name is None or rules is None:
            return None
        policy = Policy(name, tuple(rule for rule in rules if rule is not None), version, description)
        self._warn_unreachable(policy, fields.get("rules"))
        return policy

    def _scheduler(self, root: Node) -> Mapping | None:
        if not isinstance(root, Mapping):
            self._note("wrong-type", root, "a policy is a mapping that begins with 'scheduler:'", "")
            return None
        fields = self._fields(root, ("scheduler",), ("scheduler",), "")
        body = fields.get("scheduler")
        if body is not None and not isinstance(body, Mapping):
            self._note("wrong-type", body, "scheduler is a mapping with name and rules", "scheduler")
        return body if isinstance(body, Mapping) else None

    def _fields(self, node: Mapping, known: tuple[str, ...], required: tuple[str, ...], path: str) -> dict[str, Node]:
        fields = {key.text: value for key, value in node.entries}
        unknown = [key for key, _ in node.entries if key.text not in known]
        for key in unknown:
            hint = nearest(key.text, [name for name in known if name not in fields] or known)
            self._note("unknown-key", key, f"unknown key {shown(key.text)}", path, suggestion=hint)
        for name in required:
            if name not in fields:
                self._note("missing-key", node, f"the key {name!r} is missing", path)
        return fields

    def _rules(self, node: Node | None) -> list[Rule | None] | None:
        if node is None:
            return None
        if not isinstance(node, Sequence):
            self._note("wrong-type", node, "rules is a list of rules", "scheduler.rules")
            return None
        if not node.items:
            message = "no rules: the platform policy decides everything"
            self._note("no-rules", node, message, "scheduler.rules", severity="warning")
        seen: dict[str, int] = {}
        return [self._rule(item, f"scheduler.rules[{index}]", seen) for index, item in enumerate(node.items)]

    def _rule(self, node: Node, path: str, seen: dict[str, int]) -> Rule | None:
        if not isinstance(node, Mapping):
            self._note("wrong-type", node, "a rule is a mapping with name, condition and action", path)
            return None
        fields = self._fields(node, RULE_KEYS, ("name", "condition", "action"), path)
        name = self._rule_name(fields.get("name"), path, seen)
        condition, action = fields.get("condition"), fields.get("action")
        when = read_condition(condition, f"{path}.condition", self._notes) if condition else None
        then = read_action(action, f"{path}.action", self._notes) if action else None
        priority = self._priority(fields.get("priority"), f"{path}.priority")
        enabled = self._enabled(fields.get("enabled"), f"{path}.enabled")
        description = self._description(fields.get("description"), f"{path}.description")
        if name is None or when is None or then is None:
            return None
        self.rule_lines[name] = self._lines_of(node)
        return Rule(name, when, then, priority, enabled, description)

    def _rule_name(self, node: Node | None, path: str, seen: dict[str, int]) -> str | None:
        name = self._name(node, f"{path}.name")
        if name is None or node is None:
            return None
        if name in seen:
            message = f"the rule {shown(name)} already exists in line {seen[name]}"
            self._note("duplicate-rule", node, message, f"{path}.name")
            return None
        seen[name] = self._notes.line(node.start)
        return name

    def _name(self, node: Node | None, path: str) -> str | None:
        if node is None:
            return None
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, str) and not (isinstance(node, Scalar) and value is None):
            self._note("wrong-type", node, "a name is text; quote it", path)
        elif value is None or not value.strip():
            self._note("empty-name", node, "a name must not be empty", path)
        elif len(value) > LONGEST_NAME or not value.isprintable():
            self._note("bad-name", node, f"a name is one line of at most {LONGEST_NAME} characters", path)
        else:
            return value
        return None

    def _version(self, node: Node | None) -> str | None:
        if node is None:
            return None
        # unquoted 1.0 is a number to YAML; the text as written is what was meant
        if isinstance(node, Scalar) and _VERSION.fullmatch(node.text):
            return node.text
        self._note("bad-version", node, "version is semantic, as in 1.4.0", "scheduler.version")
        return None

    def _description(self, node: Node | None, path: str) -> str | None:
        value = None if node is None else node.value if isinstance(node, Scalar) else 0
        if value is None or isinstance(value, str):
            return value
        if node is not None:
            self._note("wrong-type", node, "a description is text; quote it", path)
        return None

    def _priority(self, node: Node | None, path: str) -> int:
        value: Any = 0 if node is None else node.value if isinstance(node, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_PRIORITY:
            return value
        if node is not None:
            self._note("wrong-type", node, f"priority is a whole number up to {LARGEST_PRIORITY}", path)
        return 0

    def _enabled(self, node: Node | None, path: str) -> bool:
        value: Any = True if node is None else node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool):
            return value
        if node is not None:
            self._note("wrong-type", node, "enabled is true or false", path)
        return True

    def _warn_unreachable(self, policy: Policy, rules: Node | None) -> None:
        if not isinstance(rules, Sequence) or len(policy.rules) != len(rules.items):
            return
        catch_all: Rule | None = None
        for position, rule in policy.ordered():
            if catch_all is not None and rule.enabled:
                message = f"never reached: {shown(catch_all.name)} comes first and always answers"
                path = f"scheduler.rules[{position}]"
                self._note("unreachable-rule", rules.items[position], message, path, severity="warning")
            elif is_catch_all(rule):
                catch_all = rule

    def _lines_of(self, node: Mapping) -> tuple[int, int]:
        text = self._text[node.start : node.end].rstrip()
        return self._notes.line(node.start), self._notes.line(node.start + max(len(text) - 1, 0))

    def _note(self, code: str, node: Node, message: str, path: str, **extra: Any) -> None:
        self._notes.add(code, node.start, message, path=path, **extra)
