"""YAML text to a plain tree with offsets, refusing everything a policy has no use for.

The tree is built from the parser's events, one pass, without recursion: aliases, anchors, tags, directives,
deep nesting and floods of nodes are refused the moment they are seen, so nothing is ever expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scanner import Scanner

from headgate.policy.rules.diagnostics import Notes, shown

_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".inf": math.inf, "-.inf": -math.inf, ".nan": math.nan,
}  # fmt: skip
LONGEST_NUMBER = 400


class Limits(msgspec.Struct, frozen=True):
    """How much source a policy may be."""

    max_bytes: int = 1024 * 1024
    max_depth: int = 32
    max_nodes: int = 20_000


@dataclass(frozen=True, slots=True)
class Scalar:
    text: str
    style: str  # "" plain, or one of ' " | >
    start: int
    end: int

    @property
    def value(self) -> str | int | float | bool | None:
        return self.text if self.style else plain_value(self.text)


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]
    flow: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mapping:
    entries: tuple[tuple[Scalar, Node], ...]
    flow: bool
    start: int
    end: int

    def get(self, key: str) -> Node | None:
        return next((value for name, value in self.entries if name.text == key), None)


Node = Scalar | Sequence | Mapping


def plain_value(text: str) -> str | int | float | bool | None:
    """What an unquoted YAML 1.2 scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def data(node: Node) -> Any:
    """The tree as plain Python values."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [data(item) for item in node.items]
    return {key.text: data(value) for key, value in node.entries}


def compose(text: str, notes: Notes, limits: Limits) -> Node | None:
    """The tree of the only document in `text`, or None with the reason in `notes`."""
    try:
        return _Composer(text, notes, limits).run()
    except _RefusedError as refused:
        notes.add(refused.code, refused.offset, refused.message)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "cannot be read"
        notes.add("yaml-syntax", mark.index if mark else 0, f"not valid YAML: {problem}")
    except ReaderError as error:
        message = f"not valid YAML: character #x{error.character:04x} is not allowed"
        notes.add("yaml-syntax", error.position, message)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        # the scanner trips over its own feet on some malformed escapes and directives
        notes.add("yaml-syntax", 0, f"not valid YAML: {type(error).__name__}: {str(error)[:200]}")
    return None


class _RefusedError(Exception):
    def __init__(self, code: str, offset: int, message: str) -> None:
        self.code, self.offset, self.message = code, offset, message


def _events(text: str, max_depth: int) -> Iterator[ev.Event]:
    class DepthLimited(Scanner):
        """Stops at the opening bracket that is too deep: the plain scanner would first read all of them."""

        def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803 - its name
            if self.flow_level >= max_depth:
                raise _RefusedError("too-deep", self.reader.index, f"nested deeper than {max_depth} levels")
            super().fetch_flow_collection_start(TokenClass, to_push)

        def add_indent(self, column: int) -> bool:
            if len(self.indents) > 2 * max_depth:
                raise _RefusedError("too-deep", self.reader.index, f"nested deeper than {max_depth} levels")
            return bool(super().add_indent(column))

    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = DepthLimited
    yield from yaml.parse(text)


class _Composer:
    def __init__(self, text: str, notes: Notes, limits: Limits) -> None:
        self._text, self._notes, self._limits = text, notes, limits
        self._open: list[tuple[ev.CollectionStartEvent, list[Node]]] = []
        self._root: Node | None = None
        self._documents = self._nodes = 0

    def run(self) -> Node | None:
        for event in _events(self._text, self._limits.max_depth):
            self._take(event)
        if self._root is None:
            raise _RefusedError("empty-document", 0, "empty document; a policy begins with 'scheduler:'")
        return self._root

    def _take(self, event: ev.Event) -> None:
        if isinstance(event, ev.DocumentStartEvent):
            self._start_document(event)
        elif isinstance(event, ev.AliasEvent):
            offset = event.start_mark.index
            raise _RefusedError("alias-refused", offset, "aliases are not allowed in a policy")
        elif isinstance(event, ev.NodeEvent):
            self._start_node(event)
        elif isinstance(event, ev.CollectionEndEvent):
            self._close(event)

    def _start_document(self, event: ev.DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            raise _RefusedError("several-documents", event.start_mark.index, "a policy is one document")
        if event.tags or event.version not in (None, (1, 2)):
            raise _RefusedError("directive-refused", 0, "YAML directives other than %YAML 1.2 are not allowed")

    def _start_node(self, event: ev.NodeEvent) -> None:
        offset = event.start_mark.index
        if event.anchor:
            raise _RefusedError("anchor-refused", offset, "anchors are not allowed in a policy")
        if getattr(event, "tag", None):
            raise _RefusedError("tag-refused", offset, "tags are not allowed in a policy")
        self._nodes += 1
        if self._nodes > self._limits.max_nodes:
            raise _RefusedError("too-many-nodes", offset, f"more than {self._limits.max_nodes} values")
        if isinstance(event, ev.ScalarEvent):
            self._place(self._scalar(event))
        elif isinstance(event, ev.CollectionStartEvent):
            if len(self._open) >= self._limits.max_depth:
                raise _RefusedError("too-deep", offset, f"nested deeper than {self._limits.max_depth} levels")
            self._open.append((event, []))

    def _scalar(self, event: ev.ScalarEvent) -> Scalar:
        start, end = event.start_mark.index, event.end_mark.index
        if any("\ud800" <= char <= "\udfff" for char in event.value):
            raise _RefusedError("bad-text", start, "half of a surrogate pair is not text")
        return Scalar(event.value, event.style or "", start, end)

    def _close(self, event: ev.CollectionEndEvent) -> None:
        opened, parts = self._open.pop()
        start, flow = opened.start_mark.index, bool(opened.flow_style)
        # a block collection's own end mark lies at the next token, behind comments that are not its own
        end = event.end_mark.index if flow or not parts else parts[-1].end
        if isinstance(opened, ev.SequenceStartEvent):
            self._place(Sequence(tuple(parts), flow, start, end))
        else:
            self._place(Mapping(self._entries(parts), flow, start, end))

    def _entries(self, parts: list[Node]) -> tuple[tuple[Scalar, Node], ...]:
        entries: dict[str, tuple[Scalar, Node]] = {}
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            if not isinstance(key, Scalar):
                raise _RefusedError("complex-key", key.start, "a key must be a plain name")
            if key.text in entries:
                self._notes.add("duplicate-key", key.start, f"the key {shown(key.text)} appears twice")
            else:
                entries[key.text] = (key, value)
        return tuple(entries.values())

    def _place(self, node: Node) -> None:
        if self._open:
            self._open[-1][1].append(node)
        else:
            self._root = node
