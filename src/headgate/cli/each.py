"""The same call for several names: one that fails does not hold up the others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any

from headgate.cli.api import Refusal, part
from headgate.cli.exits import DONE
from headgate.cli.output import emit
from headgate.cli.terminal import harmless


def for_each(arguments: argparse.Namespace, names: Iterable[str], call: Callable[[str], Any]) -> int:
    """Call for each name, print what came of it, and return the worst exit code."""
    code, done = DONE, list[dict[str, Any]]()
    for name in names:
        try:
            answer = call(part(name))
            done.append({"id": name, "ok": True, "answer": answer})
        except Refusal as refusal:
            code = max(code, refusal.code)
            done.append({"id": name, "ok": False, "problem": refusal.problem})
            if not arguments.json:
                print(f"{name}: {harmless(str(refusal))}", file=sys.stderr)
    emit(arguments, done, _show)
    return code


def _show(done: list[dict[str, Any]]) -> None:
    for each in done:
        if each["ok"]:
            answer = each["answer"] or {}
            print(" ".join(answer.get("ids") or [answer.get("id") or each["id"]]))
