"""Edits of a policy document that keep everything else: comments, order, quoting, unknown keys, line breaks.

Each function takes the text of a document and returns the new text. Only the text of the named rule changes;
an edit that changes nothing returns the same text. A rule takes along the comment lines directly above it.
Before a result is handed out it is read again and compared with what the edit was to achieve.
"""

from __future__ import annotations

from collections.abc import Mapping as Fields
from typing import Any

from headgate.policy.rules.diagnostics import Diagnostic, Notes, PolicySourceError, nearest, shown
from headgate.policy.rules.document import DEFAULT_LIMITS, decode
from headgate.policy.rules.layout import Layout, Slots, slots_of
from headgate.policy.rules.model import Rule
from headgate.policy.rules.plain import rule_data
from headgate.policy.rules.render import STEP, flow_text, item_lines
from headgate.policy.rules.splice import apply, mapping_splices, same
from headgate.policy.rules.tree import Mapping, Scalar, Sequence, compose, data


class RuleEditError(PolicySourceError):
    """The edit cannot be done."""


def add_rule(source: str, index: int, rule: Rule | Fields[str, Any]) -> str:
    """Inserts a rule so that it becomes the one at `index`."""
    document = _Document(source)
    new = rule_data(rule) if isinstance(rule, Rule) else dict(rule)
    document.refuse_name(new.get("name"))
    position = _bounded(index, len(document.names))
    expected = [*document.rules[:position], new, *document.rules[position:]]
    if document.names:
        return document.finish(_inserted(document, position, new).join(), expected)
    return document.finish(_first_rule(document, new), expected)


def move_rule(source: str, name: str, index: int) -> str:
    """Moves a rule, with its comments, to `index`."""
    document = _Document(source)
    position = document.position(name)
    target = _bounded(index, len(document.names) - 1)
    expected = list(document.rules)
    expected.insert(target, expected.pop(position))
    if position == target:
        return source
    slots = slots_of(document.layout, document.sequence)
    _end_with_break(document, slots)
    text = slots.items[position]
    gap = _drop(slots, position)
    _put_in(slots, target, text, gap)
    return document.finish(_as_it_ended(document, slots), expected)


def remove_rule(source: str, name: str) -> str:
    """Removes a rule and its comments."""
    document = _Document(source)
    position = document.position(name)
    expected = [*document.rules[:position], *document.rules[position + 1 :]]
    slots = slots_of(document.layout, document.sequence)
    if len(slots.items) == 1:
        return document.finish(_without_rules(document, slots), expected)
    _end_with_break(document, slots)
    _drop(slots, position)
    return document.finish(_as_it_ended(document, slots), expected)


def change_rule(source: str, name: str, /, **fields: Any) -> str:
    """Sets fields of a rule; None removes one. Values have the shape of the YAML document."""
    document = _Document(source)
    position = document.position(name)
    if "name" in fields and fields["name"] != name:
        document.refuse_name(fields["name"])
    wanted = {**document.rules[position], **fields}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    expected = [*document.rules[:position], wanted, *document.rules[position + 1 :]]
    splices = mapping_splices(document.layout, document.nodes[position], wanted)
    return document.finish(apply(document.layout.text, splices), expected)


def rename_rule(source: str, name: str, new_name: str) -> str:
    """Gives a rule another name."""
    return change_rule(source, name, name=new_name)


def disable_rule(source: str, name: str) -> str:
    """Keeps a rule in the document but out of the policy."""
    return change_rule(source, name, enabled=False)


def enable_rule(source: str, name: str) -> str:
    """Takes a disabled rule back in; undoes `disable_rule` to the byte."""
    document = _Document(source)
    if document.rules[document.position(name)].get("enabled") is not False:
        return source
    return change_rule(source, name, enabled=None)


class _Document:
    """A document whose rules can be addressed; it need not be free of other errors."""

    def __init__(self, source: str) -> None:
        text, problem = decode(source)
        if problem is not None:
            raise RuleEditError([problem])
        self._mark = source[: len(source) - len(text)]
        notes = Notes(text)
        root = compose(text, notes, DEFAULT_LIMITS)
        if root is None or notes.failed:
            raise RuleEditError(notes.found)
        self.layout = Layout(text)
        self.scheduler = root.get("scheduler") if isinstance(root, Mapping) else None
        self.root = root
        self.sequence = self._sequence()
        self.nodes = [item for item in self.sequence.items if isinstance(item, Mapping)]
        self.rules: list[dict[str, Any]] = [data(node) for node in self.nodes]
        self.names = [rule.get("name") for rule in self.rules]
        if len(self.nodes) != len(self.sequence.items):
            raise _refusal("wrong-type", "every rule must be a mapping before rules can be edited")

    def _sequence(self) -> Sequence:
        rules = self.scheduler.get("rules") if isinstance(self.scheduler, Mapping) else None
        if isinstance(rules, Scalar) and rules.value is None:
            return Sequence((), False, rules.start, rules.start)
        if not isinstance(rules, Sequence):
            raise _refusal("wrong-type", "the document has no list scheduler.rules")
        return rules

    @property
    def rules_key(self) -> Scalar:
        entries = self.scheduler.entries if isinstance(self.scheduler, Mapping) else ()
        return next(key for key, _ in entries if key.text == "rules")

    def position(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name)
        hint = nearest(name, [known for known in self.names if isinstance(known, str)])
        raise _refusal("unknown-rule", f"there is no rule {shown(name)}", hint)

    def refuse_name(self, name: object) -> None:
        if not isinstance(name, str) or not name.strip():
            raise _refusal("empty-name", "a rule needs a name")
        if name in self.names:
            raise _refusal("duplicate-rule", f"the rule {shown(name)} already exists")

    def finish(self, text: str, expected: list[dict[str, Any]]) -> str:
        """The new text, after checking that it says what it should."""
        notes = Notes(text)
        root = compose(text, notes, DEFAULT_LIMITS)
        if root is None or notes.failed:
            raise RuleEditError(notes.found)
        wanted = data(self.root)
        wanted["scheduler"]["rules"] = expected
        found = data(root)
        if not isinstance(found, dict) or not same(_unordered(found), _unordered(wanted)):
            raise _refusal("edit-refused", "this document is laid out in a way that the edit cannot keep")
        return self._mark + text


def _refusal(code: str, message: str, suggestion: str | None = None) -> RuleEditError:
    return RuleEditError([Diagnostic(code, message, 1, 1, suggestion=suggestion)])


def _unordered(value: Any) -> Any:
    """Keys sorted, since an inserted key may stand anywhere; no rules and null are the same."""
    if isinstance(value, dict):
        items = {key: _unordered(value[key]) for key in sorted(value)}
        return {key: [] if key == "rules" and item is None else item for key, item in items.items()}
    return [_unordered(item) for item in value] if isinstance(value, list | tuple) else value


def _bounded(index: int, highest: int) -> int:
    if not 0 <= index <= highest:
        raise _refusal("bad-index", f"the position {index} is not between 0 and {highest}")
    return index


def _inserted(document: _Document, position: int, new: dict[str, Any]) -> Slots:
    layout, slots = document.layout, slots_of(document.layout, document.sequence)
    if slots.flow:
        text, gap = flow_text(new), ", "
    else:
        indent = layout.indent(document.sequence.start)
        text = "".join(line + layout.newline for line in item_lines(new, indent))
        gap = next((gap for gap in slots.gaps if not gap.strip()), layout.newline)
        _end_with_break(document, slots)
    _put_in(slots, position, text, gap)
    return slots


def _put_in(slots: Slots, position: int, text: str, gap: str) -> None:
    slots.items.insert(position, text)
    slots.gaps.insert(max(position - 1, 0), gap)


def _first_rule(document: _Document, new: dict[str, Any]) -> str:
    layout, key, sequence = document.layout, document.rules_key, document.sequence
    colon = layout.text.index(":", key.end) + 1
    end = sequence.end if sequence.flow else colon
    if isinstance(document.scheduler, Mapping) and document.scheduler.flow:
        return layout.text[:colon] + f" [{flow_text(new)}]" + layout.text[end:]
    lines = item_lines(new, layout.indent(key.start) + STEP)
    rest_of_line = layout.text[end : layout.line_end(end)]
    broken = rest_of_line if rest_of_line.endswith("\n") else rest_of_line + layout.newline
    return (
        layout.text[:colon] + broken + "".join(line + layout.newline for line in lines)
        + layout.text[layout.line_end(end) :]
    )  # fmt: skip


def _without_rules(document: _Document, slots: Slots) -> str:
    if slots.flow:
        return slots.before + slots.after
    colon = document.layout.text.index(":", document.rules_key.end) + 1
    return slots.before[:colon] + " []" + slots.before[colon:] + slots.after


def _drop(slots: Slots, position: int) -> str:
    """Removes an item and the gap beside it, which is returned; comments in that gap stay where they are."""
    slots.items.pop(position)
    last = position == len(slots.gaps)
    gap = slots.gaps.pop(position - 1 if last else position)
    if not gap.strip(", \t\r\n"):
        return gap
    if slots.flow:
        gap = gap.replace(",", "", 1)
    if last:
        slots.after = gap + slots.after
    elif position:
        slots.gaps[position - 1] += gap
    else:
        slots.before += gap
    return ", " if slots.flow else ""


def _end_with_break(document: _Document, slots: Slots) -> None:
    if not slots.flow and not slots.items[-1].endswith("\n"):
        slots.items[-1] += document.layout.newline


def _as_it_ended(document: _Document, slots: Slots) -> str:
    """A text without a final line break stays without one."""
    text = slots.join()
    if document.layout.text.endswith("\n") or slots.flow or slots.after:
        return text
    return text.removesuffix(document.layout.newline)
