"""The Lua functions that compiled policies share, read from `prelude.lua`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import msgspec

_SECTION = re.compile(r"^--@ (\w+):([^\n]*)\n", re.MULTILINE)


class Section(msgspec.Struct, frozen=True):
    text: str
    needs: tuple[str, ...]


@cache
def sections() -> dict[str, Section]:
    """Every function by name, in the order in which they must be defined."""
    text = files(__package__).joinpath("prelude.lua").read_text("utf-8")
    parts = _SECTION.split(text)[1:]
    return {
        name: Section(body.strip("\n"), tuple(needs.split()))
        for name, needs, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        if body.strip()
    }


def closure(names: Iterable[str]) -> list[str]:
    """The text of the named functions and of all that they call."""
    wanted: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting.extend(sections()[name].needs)
    return [section.text for name, section in sections().items() if name in wanted]
