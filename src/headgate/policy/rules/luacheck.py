"""Syntax check of raw Lua: compiled, never run."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

_POSITION = re.compile(r'^(?:error loading code: )?\[string "[^\n]*?"\]:(\d+): (.*)$', re.DOTALL)


class LuaSyntaxProblem(msgspec.Struct, frozen=True):
    """What is wrong, and in which line of the checked text (from 1)."""

    message: str
    line: int


def check_body(source: str) -> LuaSyntaxProblem | None:
    """Whether `source` is a complete block that may stand inside a function."""
    # alone first: a text like `end ... function()` only makes sense once it is wrapped
    return check_script(source) or _problem(f"return function(context, job, worker) {source}\nend")


def check_script(source: str) -> LuaSyntaxProblem | None:
    """Whether `source` is a complete Lua chunk."""
    if source.startswith("\x1b"):
        return LuaSyntaxProblem("bytecode is not allowed", 1)
    return _problem(source)


def _problem(text: str) -> LuaSyntaxProblem | None:
    load = _loader()
    loaded, error = load(text.encode())
    if loaded:
        return None
    message = error.decode(errors="replace")
    found = _POSITION.match(message)
    if found is None:
        return LuaSyntaxProblem(message, 1)
    return LuaSyntaxProblem(found[2], int(found[1]))


@cache
def _loader() -> Any:
    # imported late: most policies hold no raw Lua, and the schema alone should not need a runtime
    from lupa import luajit21  # noqa: PLC0415

    runtime = luajit21.LuaRuntime(encoding=None, register_eval=False, register_builtins=False)
    return runtime.execute(
        b"local load = loadstring\n"
        b"return function(text) local chunk, problem = load(text, 'card') return chunk ~= nil, problem end"
    )
