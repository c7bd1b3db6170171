"""The library of policy versions: immutable, named by their content; one pointer that is moved by compare and set."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeVar

import msgspec

from headgate.core.commands import Command, PutDocument
from headgate.core.errors import DocumentMoved
from headgate.policy.errors import PolicyMoved, PolicyNotFound
from headgate.policy.sources import Language, Prepared

R = TypeVar("R")
VERSIONS, POINTER = "policy-version", "policy-pointer"
_KEPT_MOVES = 200
_BACK = "rollback"
_encode = msgspec.msgpack.Encoder().encode


class Version(msgspec.Struct, frozen=True):
    """A policy as it was deployed; it never changes."""

    id: str
    name: str
    version: str
    language: Language
    source: str
    lua: str
    sha256: str
    created_at: int
    author: str = ""
    note: str = ""


class Move(msgspec.Struct, frozen=True):
    """One move of the pointer."""

    at: int
    active: str | None
    shadow: str | None
    who: str
    why: str
    back: bool = False
    """Whether it went back: what was left that way is no longer among what came before."""


class Tripped(msgspec.Struct, frozen=True):
    """Why a policy was taken out, with what is needed to find out more."""

    at: int
    version: str
    kind: str
    message: str
    traceback: str
    decision: str
    """The decision at which it happened: its record holds the context."""


class Pointer(msgspec.Struct, frozen=True):
    """Which version decides, which one only watches; none means the platform policy."""

    active: str | None = None
    shadow: str | None = None
    tripped: Tripped | None = None
    moves: tuple[Move, ...] = ()

    @property
    def deciding(self) -> str | None:
        """The user's version that decides; none while it is tripped."""
        return None if self.tripped is not None else self.active


class Documents(Protocol):
    """Where versions are kept: an engine, or anything that keeps documents by compare and set."""

    def do(self, command: Command[R]) -> R:
        """Carry out a command."""
        ...

    def documents(self, kind: str) -> dict[str, bytes]:
        """All documents of a kind."""
        ...


class Library:
    """Versions and the pointer, kept in an engine's documents."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def versions(self) -> list[Version]:
        """All versions, oldest first."""
        found = [read_version(body) for body in self._documents.documents(VERSIONS).values()]
        return sorted(found, key=lambda version: (version.created_at, version.id))

    def get(self, version_id: str) -> Version:
        """A version by its id, or by a name (its newest version)."""
        for version in reversed(self.versions()):
            if version_id in (version.id, version.name, version.sha256):
                return version
        raise PolicyNotFound(f"there is no policy {version_id!r}", version=version_id)

    def pointer(self) -> Pointer:
        """Where things stand."""
        return read_pointer(self._body())

    def add(self, prepared: Prepared, at: int, author: str = "", note: str = "") -> Version:
        """Keep a version; the same content is kept once."""
        version = Version(
            prepared.id,
            prepared.name,
            prepared.version,
            prepared.language,
            prepared.source,
            prepared.lua,
            prepared.sha256,
            at,
            author,
            note,
        )
        if prepared.id not in self._documents.documents(VERSIONS):
            self._documents.do(PutDocument(VERSIONS, version.id, _encode(version)))
        return self.get(version.id)

    def move(
        self,
        mode: Literal["active", "shadow"],
        version_id: str | None,
        at: int,
        *,
        who: str = "",
        why: str = "",
        base: str | msgspec.UnsetType | None = msgspec.UNSET,
        back: bool = False,
    ) -> Pointer:
        """Point to a version (none: the platform policy). With `base`, only if that is what is active now."""
        body = self._body()
        before = read_pointer(body)
        if base is not msgspec.UNSET and base != before.active:
            text = f"{before.active or 'the platform policy'} is active, not {base or 'the platform policy'}"
            raise PolicyMoved(text, active=before.active)
        changed: dict[str, Any] = {mode: version_id}
        if mode == "active":
            changed["tripped"] = None
        after = msgspec.structs.replace(before, **changed)
        return self._set(body, msgspec.structs.replace(after, moves=_recorded(after, at, who, why, back=back)))

    def rollback(self, at: int, *, to: str | None = None, who: str = "", why: str = "") -> Pointer:
        """Back to a version, or to the one that was active before this one; again, and it goes one further back.

        Before the first there is the platform policy, and before that nothing: it stays.
        """
        why = why or _BACK
        if to is not None:
            return self.move("active", self.get(to).id, at, who=who, why=why, back=True)
        pointer = self.pointer()
        *earlier, _ = _line(pointer)
        target = earlier[-1] if earlier else None
        return self.move("active", target, at, who=who, why=why, base=pointer.active, back=True)

    def enable(self, at: int, *, who: str = "") -> Pointer:
        """Let a tripped policy decide again."""
        body = self._body()
        before = read_pointer(body)
        if before.tripped is None:
            return before
        after = msgspec.structs.replace(before, tripped=None)
        return self._set(body, msgspec.structs.replace(after, moves=_recorded(after, at, who, "enabled again")))

    def _body(self) -> bytes | None:
        return self._documents.documents(POINTER).get("pointer")

    def _set(self, before: bytes | None, after: Pointer) -> Pointer:
        try:
            self._documents.do(PutDocument(POINTER, "pointer", _encode(after), before))
        except DocumentMoved as moved:
            raise PolicyMoved("the pointer moved meanwhile: look again", active=self.pointer().active) from moved
        return after


def _recorded(pointer: Pointer, at: int, who: str, why: str, *, back: bool = False) -> tuple[Move, ...]:
    return (*pointer.moves, Move(at, pointer.active, pointer.shadow, who, why, back))[-_KEPT_MOVES:]


def _line(pointer: Pointer) -> list[str | None]:
    """What was active one after the other up to now, the platform policy first, without what was rolled back."""
    line: list[str | None] = [None]
    for move in pointer.moves:
        if move.active == line[-1]:
            continue
        if (move.back or move.why == _BACK) and move.active in line:
            while line[-1] != move.active:
                line.pop()
        else:
            line.append(move.active)
    return line


def read_version(body: bytes) -> Version:
    """A version from its document."""
    return msgspec.msgpack.decode(body, type=Version)


def read_pointer(body: bytes | None) -> Pointer:
    """The pointer from its document; without one the platform policy decides."""
    return Pointer() if body is None else msgspec.msgpack.decode(body, type=Pointer)


def trip(body: bytes | None, tripped: Tripped) -> PutDocument:
    """The command that takes a policy out, if it is still the active one."""
    pointer = msgspec.structs.replace(read_pointer(body), tripped=tripped)
    why = f"tripped: {tripped.kind}"
    after = msgspec.structs.replace(pointer, moves=_recorded(pointer, tripped.at, "headgate", why))
    return PutDocument(POINTER, "pointer", _encode(after))
