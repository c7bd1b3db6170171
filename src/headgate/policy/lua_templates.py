"""Lua policies to start from: each a whole policy whose first line says what it is for."""

from __future__ import annotations

from importlib import resources

import msgspec

from headgate.policy.runtime import platform_source

PLATFORM_CLONE = "platform-clone"


class LuaTemplate(msgspec.Struct, frozen=True):
    """A policy to copy and change."""

    name: str
    purpose: str
    source: str


def lua_templates() -> list[LuaTemplate]:
    """All of them; the clone of the platform policy is made from its source, so that it never lags behind."""
    files = resources.files("headgate.policy").joinpath("templates").iterdir()
    sources = {file.name.removesuffix(".lua"): file.read_text() for file in files if file.name.endswith(".lua")}
    found = [LuaTemplate(name, _purpose(text), text) for name, text in sorted(sources.items())]
    return [LuaTemplate(PLATFORM_CLONE, "The platform policy, to copy and change.", platform_source()), *found]


def _purpose(source: str) -> str:
    return source.split("\n", 1)[0].removeprefix("-- ")
