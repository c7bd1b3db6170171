"""The keys that there are, found in the types themselves: a new setting is known here by itself."""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec

from headgate.config.schema import HIDDEN, Config

Path = tuple[str, ...]
ENVIRONMENT = "HEADGATE_"
RESERVED = frozenset(
    {
        "HEADGATE_URL",
        "HEADGATE_TOKEN",
        "HEADGATE_CONFIG",
        "HEADGATE_JOB_ID",
        "HEADGATE_ATTEMPT",
        "HEADGATE_FAILPOINTS",
    }
)
"""Variables that are no keys: where and who a client is, which file is read, what a job is told, crash tests."""


class Key(msgspec.Struct, frozen=True):
    """One thing that can be set."""

    path: Path
    kind: Any
    default: Any

    @property
    def name(self) -> str:
        """As in a message or a flag: `core.lease_ttl`."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """As in the environment: `HEADGATE_CORE_LEASE_TTL`."""
        return ENVIRONMENT + "_".join(self.path).upper()


def known_keys() -> dict[Path, Key]:
    """Every key by its path, in the order of the types."""
    found: dict[Path, Key] = {}
    _descend((), Config, Config(), found)
    return found


def _descend(path: Path, kind: Any, default: Any, found: dict[Path, Key]) -> None:
    part = _struct_of(kind)
    if part is not None:
        hints = typing.get_type_hints(part, include_extras=True)
        standard = default if default is not None else part()
        for name in part.__struct_fields__:
            inner = (*path, name)
            if ".".join(inner) not in HIDDEN:
                _descend(inner, hints[name], getattr(standard, name), found)
    elif isinstance(default, dict) and default:
        for name, value in default.items():
            _descend((*path, name), type(value), value, found)
    else:
        found[path] = Key(path, kind, default)


def _struct_of(kind: Any) -> type[msgspec.Struct] | None:
    """The struct that a type is, or may be."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        inner = [part for part in map(_struct_of, typing.get_args(kind)) if part is not None]
        return inner[0] if inner else None
    return None
