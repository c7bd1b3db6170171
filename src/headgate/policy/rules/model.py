"""A policy as typed, frozen values: what the parser yields and the compiler reads."""

from __future__ import annotations

import msgspec

Value = str | int | float | bool


class Always(msgspec.Struct, frozen=True, tag="always"):
    """Holds for every job and at every moment."""


class Comparison(msgspec.Struct, frozen=True, tag="comparison"):
    """A field of the context held against a value."""

    field: str
    operator: str
    value: Value | tuple[Value, ...]


class All(msgspec.Struct, frozen=True, tag="all"):
    """Holds when every term holds."""

    terms: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, tag="any"):
    """Holds when at least one term holds."""

    terms: tuple[Condition, ...]


class Not(msgspec.Struct, frozen=True, tag="not"):
    """Holds when its term does not."""

    term: Condition


Condition = Always | Comparison | All | AnyOf | Not


class Dispatch(msgspec.Struct, frozen=True, tag="dispatch"):
    """Gives the first job that fits to the worker that the selection prefers."""

    worker_selection: str = "least-loaded"
    model_match: str | None = None


class Wait(msgspec.Struct, frozen=True, tag="wait"):
    """Ends the cycle; the engine asks again after the duration at the latest."""

    duration_ms: int | None = None


class Evict(msgspec.Struct, frozen=True, tag="evict"):
    """Stops an idle worker: a named one, or the least recently or least often used."""

    worker_id: str | None = None
    select: str | None = None


class StartWorker(msgspec.Struct, frozen=True, tag="start_worker"):
    """Starts a worker; what is not given comes from the job and from the pools."""

    model_ref: str | None = None
    pool_id: str | None = None
    gpu_id: str | int | None = None


class Preempt(msgspec.Struct, frozen=True, tag="preempt"):
    """Stops running jobs of the given classes to make room for the first job that matches."""

    classes: tuple[str, ...]


class UsePlatform(msgspec.Struct, frozen=True, tag="use"):
    """Lets the platform policy answer."""


class LuaBody(msgspec.Struct, frozen=True, tag="lua"):
    """A raw card: the body of a Lua function of `context`, `job` and `worker`."""

    source: str


class LuaScript(msgspec.Struct, frozen=True, tag="script"):
    """A raw card that holds a whole Lua policy with its own `schedule`."""

    source: str


Action = Dispatch | Wait | Evict | StartWorker | Preempt | UsePlatform | LuaBody | LuaScript


class Rule(msgspec.Struct, frozen=True):
    """When the condition holds, the action answers."""

    name: str
    condition: Condition
    action: Action
    priority: int = 0
    enabled: bool = True
    description: str | None = None


class Policy(msgspec.Struct, frozen=True):
    """Rules in the order of the file; `ordered` gives the order in which they are tried."""

    name: str
    rules: tuple[Rule, ...]
    version: str | None = None
    description: str | None = None

    def ordered(self) -> list[tuple[int, Rule]]:
        """(position in the file, rule), highest priority first, ties as in the file."""
        return sorted(enumerate(self.rules), key=lambda pair: -pair[1].priority)


def is_catch_all(rule: Rule) -> bool:
    """Whether nothing after this rule can ever be reached."""
    return rule.enabled and isinstance(rule.condition, Always) and isinstance(rule.action, Wait | UsePlatform)
