"""The words of the YAML contract: fields and their kinds, operators, actions, selections.

One place, so that the parser, the compiler, the schema's test and the suggestions agree.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Scope = Literal["job", "worker", "tenant", "metrics", "time"]
Kind = Literal["text", "number", "any", "list", "map"]

DOCUMENT_KEYS = ("name", "version", "description", "rules")
RULE_KEYS = ("name", "condition", "action", "priority", "enabled", "description")
GROUPINGS = ("all", "any", "not")
OPERATORS = (
    "exists", "eq", "ne", "in", "not_in", "gt", "gte", "lt", "lte",
    "matches", "starts_with", "contains", "between",
)  # fmt: skip
ACTIONS = ("dispatch", "wait", "evict", "start_worker", "preempt", "use", "lua")
SELECTIONS = ("least-loaded", "most-vram-free", "round-robin", "first", "best-fit", "cache-affinity")
MODEL_MATCHES = ("required", "preferred", "ignored")
EVICTIONS = ("lru", "lfu")
CLASSES = ("high", "normal", "low", "background")
PLATFORM = "platform-scheduler"

_FIELDS: dict[Scope, dict[str, Kind]] = {
    "job": {
        "id": "text", "name": "text", "type": "text", "priority": "any", "class": "text", "rank": "number",
        "tenant": "text", "units": "number", "resources": "map", "model_ref": "text", "seed": "number",
        "max_tokens": "number", "labels": "map", "attributes": "map", "created_at": "number",
        "queued_at": "number", "wait_ms": "number", "attempt": "number", "estimated_vram": "number",
        "estimated_duration_ms": "number",
    },
    "worker": {
        "id": "text", "status": "text", "model_ref": "text", "slots": "number",
        "slots_free": "number", "vram_free": "number",
        "resources_free": "map", "gpu_ids": "list", "labels": "map", "current_jobs": "list",
        "jobs_completed": "number", "last_used_at": "number", "pool_id": "text",
    },
    "tenant": {
        "id": "text", "weight": "number", "share": "number", "quota_vram": "number", "quota_used": "number",
        "quotas": "map", "usage": "map",
    },
    "metrics": {
        "queue_depth": "number", "queue_depth_by_class": "map", "total_workers": "number",
        "ready_workers": "number", "busy_workers": "number", "busy_rating": "number",
        "usable_units": "number", "leased_units": "number", "free_units": "number", "avg_wait_ms": "number",
        "jobs_completed_last_minute": "number", "vram_total": "number", "vram_allocated": "number",
        "vram_free": "number",
    },
    "time": {"hour": "number", "weekday": "number"},
}  # fmt: skip

FIELDS = tuple(f"{scope}.{name}" for scope, names in _FIELDS.items() for name in names)

# Every job of a group has the same value here, so the head of the group speaks for all. Groups are not made
# by priority or type: a rule that asks for those has to look at every job.
GROUP_FIELDS = frozenset({"job.class", "job.tenant", "job.model_ref", "job.units"})
GROUP_MAPS = ("job.resources.",)


def is_group_field(name: str) -> bool:
    """Whether looking at one job per group is enough to test this field."""
    return not name.startswith("job.") or name in GROUP_FIELDS or name.startswith(GROUP_MAPS)


# Fields whose values are known in advance: a value outside is legal, but can never hold.
KNOWN_VALUES = {
    "job.class": CLASSES,
    "worker.status": ("starting", "ready", "busy", "draining", "failed", "offline"),
}

# Clock fields go round, so `between: [22, 5]` means from 22 over midnight to 5.
CYCLIC_FIELDS = {"time.hour": (0, 23), "time.weekday": (0, 6)}

_ORDERED: dict[Kind, tuple[str, ...]] = {
    "number": ("exists", "eq", "ne", "in", "not_in", "gt", "gte", "lt", "lte", "between"),
    "text": ("exists", "eq", "ne", "in", "not_in", "matches", "starts_with", "contains"),
    "any": OPERATORS,
    "list": ("exists", "contains"),
    "map": ("exists", "contains"),
}


class Field(msgspec.Struct, frozen=True):
    """A field of the context: `job.labels.team` has the scope `job`, the name `labels`, the key `team`."""

    scope: Scope
    name: str
    kind: Kind
    key: str | None = None

    @property
    def operators(self) -> tuple[str, ...]:
        return _ORDERED[self.kind]


def find_field(text: str) -> Field | None:
    """The field called `text`; everything after a map's name is a key, dots included."""
    scope, _, rest = text.partition(".")
    name, dot, key = rest.partition(".")
    for known, names in _FIELDS.items():
        if known == scope and name in names:
            return _member(known, name, names[name], key if dot else None)
    return None


def _member(scope: Scope, name: str, kind: Kind, key: str | None) -> Field | None:
    if key is None:
        return Field(scope, name, kind)
    if kind != "map" or not key:
        return None
    return Field(scope, name, "any", key)
