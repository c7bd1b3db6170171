"""A policy as plain data in the shape of the YAML document."""

from __future__ import annotations

from typing import Any, assert_never

from headgate.policy.rules.model import (
    Action,
    All,
    Always,
    AnyOf,
    Comparison,
    Condition,
    Dispatch,
    Evict,
    LuaBody,
    LuaScript,
    Not,
    Policy,
    Preempt,
    Rule,
    StartWorker,
    UsePlatform,
    Wait,
)
from headgate.policy.rules.vocabulary import PLATFORM

Data = dict[str, Any]


def policy_data(policy: Policy) -> Data:
    """The whole document."""
    head = _given(name=policy.name, version=policy.version, description=policy.description)
    return {"scheduler": {**head, "rules": [rule_data(rule) for rule in policy.rules]}}


def rule_data(rule: Rule) -> Data:
    """One rule; what has its default value is left out."""
    return _given(
        name=rule.name,
        description=rule.description,
        condition=condition_data(rule.condition),
        action=action_data(rule.action),
        priority=rule.priority or None,
        enabled=None if rule.enabled else False,
    )


def condition_data(condition: Condition) -> str | Data:
    match condition:
        case Always():
            return "always"
        case Comparison(field, operator, value):
            operand = list(value) if isinstance(value, tuple) else value
            return {field: operand if operator == "eq" else {operator: operand}}
        case All(terms):
            return _side_by_side(terms) or {"all": [condition_data(term) for term in terms]}
        case AnyOf(terms):
            return {"any": [condition_data(term) for term in terms]}
        case Not(term):
            return {"not": condition_data(term)}
    assert_never(condition)


def action_data(action: Action) -> Data:
    match action:
        case Dispatch(selection, match_):
            return {"dispatch": _given(worker_selection=selection, model_match=match_)}
        case Wait(duration):
            return {"wait": _given(duration_ms=duration)}
        case Evict(worker_id, select):
            return {"evict": _given(worker_id=worker_id, select=select)}
        case StartWorker(model_ref, pool_id, gpu_id):
            return {"start_worker": _given(model_ref=model_ref, pool_id=pool_id, gpu_id=gpu_id)}
        case Preempt(classes):
            return {"preempt": {"classes": list(classes)}}
        case UsePlatform():
            return {"use": PLATFORM}
        case LuaBody(source):
            return {"lua": source}
        case LuaScript(source):
            return {"lua": {"script": source}}
    assert_never(action)


def _side_by_side(terms: tuple[Condition, ...]) -> Data | None:
    """Comparisons of different fields need no `all`: a mapping says the same."""
    fields = [term.field for term in terms if isinstance(term, Comparison)]
    if len(fields) < max(len(terms), 2) or len(set(fields)) < len(fields):
        return None
    merged: Data = {}
    for term in terms:
        data = condition_data(term)
        if isinstance(data, dict):
            merged |= data
    return merged


def _given(**fields: Any) -> Data:
    return {key: value for key, value in fields.items() if value is not None}
