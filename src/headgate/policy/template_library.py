"""Template policies: real policies to start from, each with its purpose in one sentence."""

from __future__ import annotations

import re
from importlib import resources

import msgspec

from headgate.policy.rules import parse
from headgate.policy.runtime import platform_source, platform_version
from headgate.policy.sources import Language

_PURPOSE = re.compile(r"^--\s*purpose\s*:\s*(.+)$", re.MULTILINE)


class Template(msgspec.Struct, frozen=True):
    """A policy to start from."""

    name: str
    purpose: str
    language: Language
    source: str


def templates() -> list[Template]:
    """All templates, by name."""
    found = [_clone()]
    for file in resources.files("headgate.policy").joinpath("templates").iterdir():
        stem, _, ending = file.name.rpartition(".")
        if ending == "yaml":
            source = file.read_text("utf-8")
            policy, _ = parse(source)
            found.append(Template(stem, (policy.description if policy else "") or "", "yaml", source))
        elif ending == "lua":
            source = file.read_text("utf-8")
            found.append(Template(stem, _purpose(source), "lua", source))
    return sorted(found, key=lambda template: template.name)


def template(name: str) -> Template:
    """One template by its name."""
    for found in templates():
        if found.name == name:
            return found
    raise LookupError(f"there is no template {name!r}")


def _purpose(source: str) -> str:
    found = _PURPOSE.search(source)
    if found is not None:
        return found[1]
    first = source.splitlines()[0] if source else ""
    return first.lstrip("- ").strip()


def _clone() -> Template:
    """The platform policy as an ordinary policy of the user's own."""
    header = f"-- policy: platform-clone\n-- version: {platform_version()}\n"
    purpose = "A copy of the platform policy to change: high before batch, fair share, backfill, eviction, preemption."
    return Template("platform-clone", purpose, "lua", header + f"-- purpose: {purpose}\n" + platform_source())
