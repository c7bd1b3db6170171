"""A policy as somebody wrote it: its language, its name and version, and the Lua that runs."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

import msgspec

from headgate.policy.rules import Diagnostic, PolicySourceError, compile_source
from headgate.policy.runtime import PolicyRefused, refuse_at_sight

Language = Literal["lua", "yaml"]
_HEADER = re.compile(r"^--\s*(policy|version)\s*:\s*(.+?)\s*$", re.MULTILINE)
_SEMANTIC = re.compile(r"\d+\.\d+(\.\d+)?([-+][0-9A-Za-z.-]+)?")


class Prepared(msgspec.Struct, frozen=True):
    """A source that can be loaded."""

    name: str
    version: str
    language: Language
    source: str
    lua: str
    sha256: str
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def id(self) -> str:
        """The name of exactly this content."""
        return f"{self.name}@{self.sha256[:12]}"


def prepare(language: str, source: str, name: str | None = None) -> Prepared:
    """Read a source; raise `PolicySourceError` with its diagnostics if that cannot be done."""
    if language == "yaml":
        compiled = compile_source(source)
        version = compiled.version or "0.0.0"
        return Prepared(
            name or compiled.name, version, "yaml", source, compiled.lua, compiled.sha256, compiled.warnings
        )
    if language != "lua":
        raise PolicySourceError([Diagnostic("language", f"{language!r} is not lua or yaml", 1, 1)])
    return _lua(source, name)


def _lua(source: str, name: str | None) -> Prepared:
    data = source.encode("utf-8", "surrogatepass")
    try:
        refuse_at_sight(data)
    except PolicyRefused as refused:
        raise PolicySourceError([refusal(refused)]) from refused
    header = dict(_HEADER.findall(source[:4_000]))
    version = header.get("version", "0.0.0")
    if not _SEMANTIC.fullmatch(version):
        line = source[: source.index(version)].count("\n") + 1
        raise PolicySourceError([Diagnostic("version", f"{version!r} is not a semantic version", line, 1)])
    found = name or header.get("policy") or "unnamed"
    return Prepared(found, version, "lua", source, source, hashlib.sha256(data).hexdigest())


def refusal(refused: PolicyRefused) -> Diagnostic:
    """What the runtime said, as a diagnostic."""
    return Diagnostic(refused.kind or "lua", refused.message, refused.line or 1, refused.column or 1)
