"""What is looked at: a policy, what it was told, the question, and what it is known to have answered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from headgate.policy import contexts
from headgate.policy.decisions import FOREVER_MS, Decision, timeless, unpack
from headgate.policy.deltas import Delta, Question, Reset, encode
from headgate.policy.errors import InvalidPolicy
from headgate.policy.rules import PolicySourceError, compile_source
from headgate.policy.sources import Language, Prepared, prepare

_ASK = re.compile(r"\s*local function \w+\(context, seen\)$")


class Subject(msgspec.Struct, frozen=True):
    """A decision to be made once more. `recorded` is what was answered then, if anybody knows."""

    name: str
    language: Language
    source: str
    lua: str
    told: bytes
    question: Question
    recorded: list[dict[str, Any]] | None = None
    path: str | None = None
    draft: bool = False
    """Another policy in the place of the one that decided: it may answer otherwise."""

    def with_policy(self, prepared: Prepared, path: str | None) -> Subject:
        """The same question to another policy."""
        return msgspec.structs.replace(
            self,
            name=prepared.name,
            language=prepared.language,
            source=prepared.source,
            lua=prepared.lua,
            path=path,
            draft=self.recorded is not None and prepared.lua != self.lua,
        )

    def rules(self) -> dict[str, RulePlace]:
        """Where each rule of a YAML policy stands, by name; nothing for Lua."""
        if self.language != "yaml":
            return {}
        lines = self.lua.split("\n")
        found = {}
        for name, place in compile_source(self.source).source_map.items():
            first, last = place.lua
            starts = [n for n in range(first, last + 1) if _ASK.match(lines[n - 1])]
            if starts:
                found[name] = RulePlace(place.yaml, (starts[-1], last), place.lua)
        return found


class RulePlace(msgspec.Struct, frozen=True):
    """First and last line of a rule: in the YAML, of the function that asks it, and of its whole block in the Lua."""

    yaml: tuple[int, int]
    asks: tuple[int, int]
    lua: tuple[int, int]


class Context(msgspec.Struct, frozen=True):
    """A recorded decision as it travels: everything that is needed to make it once more."""

    id: str
    version: str
    language: Language
    source: str
    lua: str
    frames: list[bytes]
    question: Question
    actions: list[dict[str, Any]]
    failure: str = ""


def of_context(context: Context) -> Subject:
    """A recorded decision."""
    deltas: list[Delta] = [delta for frame in context.frames for delta in unpack(frame)]
    recorded = None if context.failure else context.actions
    return Subject(
        context.version, context.language, context.source, context.lua, encode(deltas), context.question, recorded
    )


def context_of(history: Sequence[Decision], language: Language, source: str, lua: str) -> Context:
    """The last decision of a history, under the policy that was asked."""
    last = history[-1]
    frames = [decision.frame for decision in history]
    name = last.attempted or last.version
    return Context(last.id, name, language, source, lua, frames, timeless(last), last.actions, last.failure)


def of_file(path: Path, where: str = "sample") -> Subject:
    """A policy file on a generated context: `sample`, `sample:7` (the seventh), `crowd:10000` (so many jobs)."""
    prepared = read(path)
    deltas, question = generated(where)
    asked = msgspec.structs.replace(question, budget_ms=FOREVER_MS)
    return Subject(
        prepared.name, prepared.language, prepared.source, prepared.lua, encode(deltas), asked, None, str(path)
    )


def of_state(deltas: Sequence[Delta], question: Question, name: str, lua: str) -> Subject:
    """A policy on any state that somebody can put into deltas."""
    asked = msgspec.structs.replace(question, budget_ms=FOREVER_MS)
    return Subject(name, "lua", lua, lua, encode([Reset(), *deltas]), asked)


def read(path: Path) -> Prepared:
    """A policy file; `InvalidPolicy` says what is wrong with it and where."""
    language = {".lua": "lua", ".yaml": "yaml", ".yml": "yaml"}.get(path.suffix)
    if language is None:
        raise InvalidPolicy(f"{path} ends in neither .lua nor .yaml", field="policy")
    try:
        return prepare(language, path.read_text("utf-8"), path.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPolicy(f"{path} cannot be read: {error}", field="policy") from error
    except PolicySourceError as error:
        raise InvalidPolicy(f"{path}: {error}", field="policy") from error


def generated(where: str) -> tuple[list[Delta], Question]:
    """A generated context by its name."""
    kind, _, number = where.partition(":")
    if kind not in ("sample", "crowd") or not (number.isdigit() or not number):
        raise InvalidPolicy(f"{where!r} is not sample, sample:NUMBER or crowd:JOBS", field="context")
    if kind == "crowd":
        return list(contexts.crowd(int(number or 1_000))), contexts.question(1)
    seed = int(number or 5)
    return contexts.context(seed), contexts.question(seed)
