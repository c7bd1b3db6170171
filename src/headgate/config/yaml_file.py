"""`headgate.yaml` to values with their places. Keys that are not known are refused with the nearest known one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

import msgspec

from headgate.config.keys import Key, Path
from headgate.policy.rules import tree
from headgate.policy.rules.diagnostics import Notes, nearest, shown

_LIMITS = tree.Limits(max_bytes=256 * 1024, max_depth=16, max_nodes=5_000)


class Leaf(msgspec.Struct, frozen=True):
    """One value of the file."""

    path: Path
    value: Any
    origin: str


def read(path: FilePath, keys: Mapping[Path, Key]) -> tuple[list[Leaf], list[str]]:
    """The values of a file, and what is wrong with it."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [], [f"{path}: cannot be read: {error}"]
    if len(text) > _LIMITS.max_bytes:
        return [], [f"{path}: larger than {_LIMITS.max_bytes} bytes"]
    notes = Notes(text)
    leaves: list[Leaf] = []
    if _says_something(text):
        root = tree.compose(text, notes, _LIMITS)
        if isinstance(root, tree.Mapping):
            reader = _Reader(path, notes, keys)
            leaves = list(reader.walk((), root))
        elif root is not None:
            notes.add("shape", 0, "must be a mapping of keys")
    problems = [f"{path}:{note.line}:{note.column}: {_worded(note.message)}" for note in notes.found]
    return ([], problems) if problems else (leaves, [])


def _says_something(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _worded(message: str) -> str:
    return message.replace(" in a policy", "").replace("a policy is", "a configuration is")


class _Reader:
    def __init__(self, path: FilePath, notes: Notes, keys: Mapping[Path, Key]) -> None:
        self._path, self._notes, self._keys = path, notes, keys
        self._parts = {key[:length] for key in keys for length in range(1, len(key))}

    def walk(self, at: Path, node: tree.Mapping) -> Iterator[Leaf]:
        for name, value in node.entries:
            path = (*at, name.text)
            if path in self._keys:
                line = self._notes.line(name.start)
                yield Leaf(path, tree.data(value), f"{self._path}:{line}")
            elif path not in self._parts:
                self._unknown(at, name)
            elif isinstance(value, tree.Mapping):
                yield from self.walk(path, value)
            elif not (isinstance(value, tree.Scalar) and value.value is None):
                self._notes.add("shape", name.start, f"{'.'.join(path)}: must be a mapping of keys")

    def _unknown(self, at: Path, name: tree.Scalar) -> None:
        here = {key[len(at)] for key in self._keys if key[: len(at)] == at and len(key) > len(at)}
        close = nearest(name.text, here)
        if close is None:
            everywhere = {key[-1]: ".".join(key) for key in self._keys}
            match = nearest(name.text, everywhere)
            close = everywhere[match] if match else None
        hint = f"; did you mean {close!r}?" if close else ""
        place = f" in {'.'.join(at)}" if at else ""
        self._notes.add("unknown-key", name.start, f"unknown key {shown(name.text)}{place}{hint}")
