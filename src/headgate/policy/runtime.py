"""One Lua runtime: the mirror, the sandbox and the loaded policies.

Used in the trusted host, in the locked-down child, by the validator and for replays. Only byte strings and
numbers cross the border: no Python object is ever visible in Lua. It bounds nothing in time; whoever runs
foreign code here does so in a process that can be killed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from lupa import luajit21

from headgate.policy.deltas import Answer, Delta, Question, decode_answer, encode

MAX_SOURCE_BYTES = 1 << 20
PLATFORM, USER = "platform", "user"
_PARTS = (
    *("codec", "views", "queue", "mirror", "fleet"),
    *("fitting", "helpers", "stock", "quotas", "eviction", "victims", "timeline"),
    *("effects", "sandbox", "speech", "policies", "asking", "deltas"),
)


class PolicyRefused(ValueError):
    """The source is not a policy that can run."""

    def __init__(self, kind: str, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.line, self.column = kind, message, line, column


@cache
def lua_source(name: str) -> bytes:
    """The text of one of the package's own Lua files."""
    return resources.files("headgate.policy").joinpath("lua", f"{name}.lua").read_bytes()


def platform_source(version: str | None = None) -> str:
    """The built-in policy, which is also its own manual: the one that decides, or an earlier one by its version."""
    if version is None:
        return lua_source("platform").decode()
    return platform_versions()[version]


@cache
def platform_version() -> str:
    """The semantic version in the header of the built-in policy."""
    return _version_of(platform_source())


@cache
def platform_versions() -> dict[str, str]:
    """Every version of the built-in policy in this package, so that what an earlier one decided can be replayed.

    `platform.lua` decides; those before it stay beside it as `platform-1.0.0.lua`.
    """
    return read_versions(resources.files("headgate.policy").joinpath("lua").iterdir())


def read_versions(files: Iterable[Traversable]) -> dict[str, str]:
    """The sources of the platform policy among these files, by version."""
    sources = [file.read_text("utf-8") for file in files if re.fullmatch(r"platform(-[\d.]+)?\.lua", file.name)]
    return {_version_of(source): source for source in sources}


def _version_of(source: str) -> str:
    found = re.search(r"^-- version: (\d+\.\d+\.\d+)$", source, re.MULTILINE)
    if found is None:
        raise PolicyRefused("version", "the platform policy names no version")
    return found[1]


def _no_attributes(_obj: object, _name: object, _setting: bool) -> str:
    raise AttributeError("no Python object is reachable from a policy")


class Runtime:
    """A mirror and the policies that look at it. A `bounded` one can be given a limit of memory later.

    `parts` are further trusted Lua files, by name, loaded last; what each returns is kept in `extras`.
    """

    def __init__(self, *, bounded: bool = False, parts: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._lua: Any = luajit21.LuaRuntime(
            encoding=None, register_eval=False, register_builtins=False, unpack_returned_tuples=False,
            attribute_filter=_no_attributes, max_memory=0 if bounded else None,
        )  # fmt: skip
        part, close, self._collect, self._feed, self._load, self._check, name = self._lua.execute(lua_source("open"))
        for file in _PARTS:
            part(lua_source(file), file.encode())
        self.extras: dict[str, Any] = {file: part(source, file.encode()) for file, source in parts.items()}
        close()
        self.name = name.decode()
        self.load(platform_source(), PLATFORM)

    def memory_used(self) -> int:
        """Bytes in use by this runtime, if it is bounded."""
        return int(self._lua.get_memory_used(total=True) or 0)

    def limit_heap(self, heap_bytes: int, mirror_bytes: int) -> None:
        """Allow this much for policies on top of what is in use now, and this much for the mirror to grow."""
        self._lua.set_max_memory(self.memory_used() + heap_bytes + mirror_bytes, total=True)

    def collect(self) -> None:
        """Clear away what a big change left, so that no decision has to."""
        self._collect()

    def load(self, source: str | bytes, who: str = USER) -> None:
        """Compile a policy and run its main chunk once; `PolicyRefused` says what is wrong and where."""
        data = source.encode() if isinstance(source, str) else source
        refuse_at_sight(data)
        result = self._load(who.encode(), data, b"platform" if who == PLATFORM else b"policy")
        if result is None:
            return
        kind, message = (part.decode("utf-8", "replace") for part in result)
        line, text = split_message(message)
        column = self._column(data, line, text) if kind == "syntax" and line else None
        raise PolicyRefused(kind, text, line, column)

    def _column(self, data: bytes, line: int, text: str) -> int:
        """The parser names the token but not its place: it is the last one before which the text is still
        unfinished.
        """
        lines = data.split(b"\n")
        start = sum(len(part) + 1 for part in lines[: line - 1])
        row = lines[line - 1]
        token = re.search(r"near '(.*)'$", text, re.DOTALL)
        if token is None or token[1] == "<eof>":
            return len(row) + 1
        needle, column, at = token[1].encode(), 1, -1
        while (at := row.find(needle, at + 1)) >= 0:
            verdict = self._check(data[: start + at], b"policy")
            if verdict is not None and b"<eof>" not in verdict:
                break
            column = len(row[:at].decode("utf-8", "replace")) + 1
        return column

    def feed(self, frame: bytes, who: str = USER) -> bytes:
        """Apply encoded deltas; the encoded answer when the frame ends with a question, else nothing."""
        answer: bytes = self._feed(frame, who.encode())
        return answer

    def apply(self, deltas: list[Delta]) -> None:
        """Apply deltas from Python."""
        self.feed(encode(deltas))

    def ask(self, question: Question, who: str = USER) -> Answer:
        """Ask one of the loaded policies."""
        return decode_answer(self.feed(encode([question]), who))


def refuse_at_sight(data: bytes) -> None:
    """What no parser has to see: too long, compiled, or not text."""
    if len(data) > MAX_SOURCE_BYTES:
        raise PolicyRefused("size", f"{len(data)} bytes of source, at most {MAX_SOURCE_BYTES} are allowed")
    if data[:1] == b"\x1b":
        raise PolicyRefused("bytecode", "compiled Lua is refused")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise PolicyRefused("encoding", "the source is not UTF-8") from error


def split_message(message: str) -> tuple[int | None, str]:
    """`policy:3: what` as line and text."""
    found = re.match(r"policy:(\d+): (.*)", message, re.DOTALL)
    return (int(found[1]), found[2]) if found else (None, message)
