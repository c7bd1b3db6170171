"""Conditions as Lua expressions, split by what they look at.

A condition is a predicate over the world, a job and a worker. Its top-level terms are sorted by the most
specific thing they need, so that each is tested as early as possible: the world once, a job once,
a worker for each job.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from headgate.policy.rules.luatext import literal, number, quoted
from headgate.policy.rules.model import All, Always, AnyOf, Comparison, Condition, Not, Value
from headgate.policy.rules.patterns import to_lua_patterns
from headgate.policy.rules.vocabulary import CYCLIC_FIELDS, Field, find_field, is_group_field

_ORDERING = {"gt": "above", "gte": "at_least", "lt": "below", "lte": "at_most"}
# longer lists are walked at run time instead of being spelled out
LONGEST_CHAIN = 16


class Split(msgspec.Struct, frozen=True):
    """Lua expressions for the terms of a condition; None where there is none."""

    world: str | None
    job: str | None
    worker: str | None
    needs: frozenset[str]
    by_group: bool
    uses: frozenset[str]
    worker_uses: frozenset[str]


def split(condition: Condition) -> Split:
    """The condition as up to three expressions of which all must hold."""
    writer = _Writer()
    terms = condition.terms if isinstance(condition, All) else (condition,)
    found: dict[str, list[str]] = {"world": [], "job": [], "worker": []}
    worker_uses: set[str] = set()
    for term in terms:
        stage = _stage(fields_of(term))
        if stage == "worker":
            worker_uses |= _scopes(fields_of(term))
        if not isinstance(term, Always):
            found[stage].append(writer.term(term))
    joined = {stage: " and ".join(parts) or None for stage, parts in found.items()}
    fields = fields_of(condition)
    return Split(
        **joined,
        needs=frozenset(writer.needs),
        by_group=all(map(is_group_field, fields)),
        uses=frozenset(_scopes(fields)),
        worker_uses=frozenset(worker_uses),
    )


def fields_of(condition: Condition) -> set[str]:
    """Every field that a condition mentions."""
    match condition:
        case Always():
            return set()
        case Comparison(field):
            return {field}
        case All(terms) | AnyOf(terms):
            return set().union(*(fields_of(term) for term in terms))
        case Not(term):
            return fields_of(term)
    assert_never(condition)


def _scopes(fields: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in fields}


def _stage(fields: set[str]) -> str:
    scopes = _scopes(fields)
    if "worker" in scopes:
        return "worker"
    return "job" if scopes & {"job", "tenant"} else "world"


class _Writer:
    """Writes expressions and remembers which functions of the prelude they call."""

    def __init__(self) -> None:
        self.needs: set[str] = set()

    def term(self, condition: Condition) -> str:
        match condition:
            case Always():
                return "true"
            case Comparison(name, operator, value):
                return self._comparison(name, operator, value)
            case All(terms):
                return self._joined(terms, " and ")
            case AnyOf(terms):
                return self._joined(terms, " or ")
            case Not(term):
                return f"not ({self.term(term)})"
        assert_never(condition)

    def _joined(self, terms: tuple[Condition, ...], word: str) -> str:
        return "(" + word.join(self.term(term) for term in terms) + ")"

    def _comparison(self, name: str, operator: str, value: Value | tuple[Value, ...]) -> str:
        field = find_field(name)
        if field is None:
            raise ValueError(f"unknown field {name!r}")
        subject = self._subject(field)
        if isinstance(value, tuple):
            return self._with_list(name, field, subject, operator, value)
        if operator in ("matches", "starts_with", "contains"):
            return self._with_text(subject, operator, value)
        if operator == "exists":
            return f"{subject} ~= nil" if value else f"{subject} == nil"
        if operator in _ORDERING:
            return self._call(_ORDERING[operator], subject, number(value))
        written = _written(field, value)
        # a missing value is not different from anything: it does not compare
        return f"{subject} == {written}" if operator == "eq" else f"({subject} ~= nil and {subject} ~= {written})"

    def _with_list(self, name: str, field: Field, subject: str, operator: str, values: tuple[Value, ...]) -> str:
        if operator == "between":
            return self._between(name, subject, number(values[0]), number(values[1]), values)
        among = self._among(subject, [_written(field, value) for value in values])
        return among if operator == "in" else f"({subject} ~= nil and not {among})"

    def _among(self, subject: str, members: list[str]) -> str:
        if len(members) > LONGEST_CHAIN:
            return self._call("among", subject, "{ " + ", ".join(members) + " }")
        return "(" + " or ".join(f"{subject} == {member}" for member in members) + ")"

    def _between(self, name: str, subject: str, low: str, high: str, values: tuple[Value, ...]) -> str:
        if name not in CYCLIC_FIELDS or _rises(values):
            return self._call("within", subject, low, high)
        first, last = CYCLIC_FIELDS[name]
        to_end = self._call("within", subject, low, str(last))
        from_start = self._call("within", subject, str(first), high)
        return f"({to_end} or {from_start})"

    def _with_text(self, subject: str, operator: str, value: Value) -> str:
        if operator != "matches":
            return self._call(operator, subject, literal(value))
        calls = [self._call("matches", subject, quoted(pattern)) for pattern in to_lua_patterns(str(value))]
        return calls[0] if len(calls) == 1 else "(" + " or ".join(calls) + ")"

    def _call(self, function: str, *arguments: str) -> str:
        self.needs.add(function)
        return f"{function}({', '.join(arguments)})"

    def _subject(self, field: Field) -> str:
        owner = f"{field.scope}.{field.name}"
        return owner if field.key is None else self._call("at", owner, quoted(field.key))


def _written(field: Field, value: Value) -> str:
    return number(value) if field.kind == "number" else literal(value)


def _rises(values: tuple[Value, ...]) -> bool:
    low, high = values
    return isinstance(low, int | float) and isinstance(high, int | float) and low <= high
