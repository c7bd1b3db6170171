"""Reads the `condition` of a rule from the tree."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from headgate.policy.rules.diagnostics import Notes, nearest, shown
from headgate.policy.rules.model import All, Always, AnyOf, Comparison, Condition, Not, Value
from headgate.policy.rules.patterns import PatternError, to_lua_patterns
from headgate.policy.rules.tree import Mapping, Node, Scalar, Sequence
from headgate.policy.rules.vocabulary import (
    CYCLIC_FIELDS,
    FIELDS,
    GROUPINGS,
    KNOWN_VALUES,
    OPERATORS,
    Field,
    find_field,
)

SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(KB|MB|GB|KiB|MiB|GiB)")
LARGEST_EXACT = 2**53
_KIND_WORDS = {
    "text": "text",
    "number": "a number",
    "any": "text, a number or true/false",
    "list": "a list",
    "map": "a map",
}


def read_condition(node: Node, path: str, notes: Notes) -> Condition | None:
    """The condition, or None after noting what is wrong with it."""
    if isinstance(node, Scalar):
        if node.value == "always":
            return Always()
        hint = nearest(node.text, ["always"])
        message = "a condition is 'always' or a mapping"
        notes.add("wrong-type", node.start, message, path=path, suggestion=hint)
        return None
    if isinstance(node, Sequence):
        notes.add("wrong-type", node.start, "a condition is 'always' or a mapping; use all: [...]", path=path)
        return None
    return _mapping(node, path, notes)


def _mapping(node: Mapping, path: str, notes: Notes) -> Condition | None:
    if not node.entries:
        notes.add("empty-condition", node.start, "an empty condition; write 'always'", path=path)
        return None
    terms = [term for key, value in node.entries for term in _entry(key, value, path, notes)]
    whole = [term for term in terms if term is not None]
    if len(whole) < len(terms):
        return None
    return whole[0] if len(whole) == 1 else All(tuple(whole))


def _entry(key: Scalar, value: Node, path: str, notes: Notes) -> list[Condition | None]:
    place = f"{path}.{key.text[:80]}"
    if key.text == "not":
        term = read_condition(value, place, notes)
        return [Not(term) if term is not None else None]
    if key.text in ("all", "any"):
        return [_grouping(All if key.text == "all" else AnyOf, value, place, notes)]
    field = find_field(key.text)
    if field is None:
        _unknown_field(key, path, notes)
        return [None]
    return _comparisons(key.text, field, value, place, notes)


def _grouping(
    build: Callable[[tuple[Condition, ...]], Condition], value: Node, path: str, notes: Notes
) -> Condition | None:
    if not isinstance(value, Sequence):
        notes.add("wrong-type", value.start, "expected a list of conditions", path=path)
        return None
    if not value.items:
        notes.add("empty-condition", value.start, "expected at least one condition", path=path)
        return None
    terms = [read_condition(item, f"{path}[{index}]", notes) for index, item in enumerate(value.items)]
    whole = [term for term in terms if term is not None]
    return build(tuple(whole)) if len(whole) == len(terms) else None


def _unknown_field(key: Scalar, path: str, notes: Notes) -> None:
    if key.text in OPERATORS:
        message = f"{shown(key.text)} belongs below a field, as in job.units: {{{key.text}: ...}}"
        notes.add("unknown-field", key.start, message, path=path)
        return
    hint = nearest(key.text, (*FIELDS, *GROUPINGS))
    notes.add("unknown-field", key.start, f"unknown field {shown(key.text)}", path=path, suggestion=hint)


def _comparisons(name: str, field: Field, value: Node, path: str, notes: Notes) -> list[Condition | None]:
    if isinstance(value, Mapping):
        if not value.entries:
            notes.add("empty-condition", value.start, "expected an operator", path=path)
            return [None]
        return [_comparison(name, field, key, operand, path, notes) for key, operand in value.entries]
    if isinstance(value, Sequence):
        notes.add("wrong-type", value.start, "a list needs an operator", path=path, suggestion="in")
        return [None]
    return [_comparison(name, field, Scalar("eq", "", value.start, value.start), value, path, notes)]


def _comparison(name: str, field: Field, operator: Scalar, operand: Node, path: str, notes: Notes) -> Comparison | None:
    if operator.text not in OPERATORS:
        hint = nearest(operator.text, OPERATORS)
        message = f"unknown operator {shown(operator.text)}"
        notes.add("unknown-operator", operator.start, message, path=path, suggestion=hint)
        return None
    if operator.text not in field.operators:
        applicable = ", ".join(field.operators)
        message = f"{name} is {_KIND_WORDS[field.kind]}; {operator.text} does not apply (use {applicable})"
        notes.add("wrong-operator", operator.start, message, path=path)
        return None
    value = _OPERANDS.get(operator.text, _single)(field, operator.text, operand, path, notes)
    if value is None:
        return None
    _warn_of_impossible(name, operator.text, operand, value, path, notes)
    if operator.text == "between" and not _rises(name, operand, value, path, notes):
        return None
    return Comparison(name, operator.text, value)


def _flag(_field: Field, _operator: str, operand: Node, path: str, notes: Notes) -> Value | None:
    if isinstance(operand, Scalar) and isinstance(operand.value, bool):
        return operand.value
    notes.add("wrong-type", operand.start, "exists takes true or false", path=path)
    return None


def _text(_field: Field, operator: str, operand: Node, path: str, notes: Notes) -> Value | None:
    if isinstance(operand, Scalar) and isinstance(operand.value, str):
        return operand.value
    notes.add("wrong-type", operand.start, f"{operator} takes text; quote it", path=path)
    return None


def _pattern(field: Field, operator: str, operand: Node, path: str, notes: Notes) -> Value | None:
    text = _text(field, operator, operand, path, notes)
    if not isinstance(text, str):
        return None
    try:
        to_lua_patterns(text)
    except PatternError as error:
        message = f"cannot match {shown(text)}: {error.message} (at character {error.offset + 1})"
        notes.add("bad-pattern", operand.start, message, path=path)
        return None
    return text


def _many(field: Field, operator: str, operand: Node, path: str, notes: Notes) -> tuple[Value, ...] | None:
    if not isinstance(operand, Sequence):
        notes.add("wrong-type", operand.start, f"{operator} takes a list", path=path)
        return None
    if not operand.items:
        notes.add("empty-list", operand.start, f"{operator} takes at least one value", path=path)
        return None
    values = [_single(field, operator, item, path, notes) for item in operand.items]
    whole = tuple(value for value in values if value is not None)
    return whole if len(whole) == len(values) else None


def _pair(field: Field, operator: str, operand: Node, path: str, notes: Notes) -> tuple[Value, ...] | None:
    if not isinstance(operand, Sequence) or len(operand.items) != 2:
        notes.add("bad-range", operand.start, "between takes exactly two values: [low, high]", path=path)
        return None
    return _many(field, operator, operand, path, notes)


def _single(field: Field, operator: str, operand: Node, path: str, notes: Notes) -> Value | None:
    if not isinstance(operand, Scalar):
        notes.add("wrong-type", operand.start, f"{operator} takes a single value", path=path)
        return None
    value = operand.value
    if value is None:
        message = "null compares with nothing; write {exists: false} for a missing value"
        notes.add("wrong-type", operand.start, message, path=path, suggestion="exists")
        return None
    if not _representable(value):
        message = f"{shown(operand.text)} is not a number that Lua can hold exactly"
        notes.add("bad-number", operand.start, message, path=path)
        return None
    if not _suits(field, operator, value):
        expected = "a number" if operator in _ORDERING else _KIND_WORDS[field.kind]
        notes.add("wrong-type", operand.start, f"expected {expected}, found {shown(operand.text)}", path=path)
        return None
    return value


_ORDERING = ("gt", "gte", "lt", "lte", "between")


def _suits(field: Field, operator: str, value: Value) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if operator in _ORDERING or field.kind == "number":
        return number or (isinstance(value, str) and SIZE.fullmatch(value) is not None)
    return isinstance(value, str) if field.kind == "text" else True


def _representable(value: Value) -> bool:
    if isinstance(value, int):
        return abs(value) <= LARGEST_EXACT
    return not isinstance(value, float) or math.isfinite(value)


_OPERANDS: dict[str, Callable[[Field, str, Node, str, Notes], Value | tuple[Value, ...] | None]] = {
    "exists": _flag,
    "in": _many,
    "not_in": _many,
    "matches": _pattern,
    "starts_with": _text,
    "between": _pair,
}


def size_of(value: Value) -> float:
    """The number behind `8GB`: decimal, and binary with an i, as in the resources of a job."""
    if not isinstance(value, str):
        return float(value)
    found = SIZE.fullmatch(value)
    if found is None:
        raise ValueError(value)
    power = "KMG".index(found[2][0]) + 1
    return float(float(found[1]) * (1024 if found[2].endswith("iB") else 1000) ** power)


def _rises(name: str, operand: Node, value: Value | tuple[Value, ...], path: str, notes: Notes) -> bool:
    if not isinstance(value, tuple) or name in CYCLIC_FIELDS or size_of(value[0]) <= size_of(value[1]):
        return True
    notes.add("bad-range", operand.start, "between takes the lower value first", path=path)
    return False


def _warn_of_impossible(
    name: str, operator: str, operand: Node, value: Value | tuple[Value, ...], path: str, notes: Notes
) -> None:
    known = KNOWN_VALUES.get(name)
    if known is None or operator not in ("eq", "ne", "in", "not_in"):
        return
    for one in value if isinstance(value, tuple) else (value,):
        if one not in known:
            message = f"{name} is never {shown(str(one))}; it is one of {', '.join(known)}"
            hint = nearest(str(one), known)
            notes.add("unknown-value", operand.start, message, path=path, suggestion=hint, severity="warning")
