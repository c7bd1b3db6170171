"""The effective configuration as YAML, with where each value came from."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from headgate.config.keys import Key, known_keys
from headgate.config.reading import Loaded

_SECRET = re.compile(r"(://[^:/@]*):[^@]*@")


def value_of(loaded: Loaded, key: Key) -> Any:
    """What a key is set to; none inside a part that is not set."""
    part: Any = loaded.config
    for name in key.path:
        part = part.get(name) if isinstance(part, dict) else getattr(part, name, None)
        if part is None:
            return None
    return _hidden(part)


def _part_unset(loaded: Loaded, key: Key) -> bool:
    """Whether a key lies in an optional part that nobody set."""
    parent = Key(key.path[:-1], None, None)
    return bool(parent.path) and value_of(loaded, parent) is None


def _hidden(value: Any) -> Any:
    """Passwords in addresses are not shown."""
    return _SECRET.sub(r"\1:***@", value) if isinstance(value, str) else value


def as_data(loaded: Loaded) -> dict[str, Any]:
    """For `--json`: every key with its value and origin."""
    keys = known_keys().values()
    return {
        key.name: {"value": msgspec.to_builtins(value_of(loaded, key)), "origin": origin(loaded, key)} for key in keys
    }


def origin(loaded: Loaded, key: Key) -> str:
    """Where a value came from."""
    return loaded.origins.get(key.name, "default")


def as_yaml(loaded: Loaded, *, everything: bool = True) -> str:
    """For people: a file that could be used as it stands."""
    lines: list[str] = []
    open_parts: tuple[str, ...] = ()
    for key in known_keys().values():
        if (not everything and key.name not in loaded.origins) or _part_unset(loaded, key):
            continue
        parts = key.path[:-1]
        shared = next((i for i, pair in enumerate(zip(parts, open_parts, strict=False)) if pair[0] != pair[1]), None)
        shared = min(len(parts), len(open_parts)) if shared is None else shared
        lines += [f"{'  ' * depth}{parts[depth]}:" for depth in range(shared, len(parts))]
        text = msgspec.json.encode(value_of(loaded, key)).decode()
        lines.append(f"{'  ' * len(parts)}{key.path[-1]}: {text}  # {origin(loaded, key)}")
        open_parts = parts
    return "\n".join(lines) + "\n"
