"""`headgate policy` where no server is needed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from headgate.cli.exits import CANNOT_CREATE, DONE, FAILED, Failure
from headgate.cli.output import emit, paint, table


def new(arguments: argparse.Namespace) -> int:
    """Write a template to a file."""
    from headgate.bootstrap.policy_files import find_template, templates

    if arguments.list:
        data = [{"name": each.name, "language": each.language, "purpose": each.purpose} for each in templates()]
        emit(
            arguments, data, lambda rows: table(("template", "language", "purpose"), [tuple(r.values()) for r in rows])
        )
        return DONE
    found = find_template(arguments.template)
    if arguments.file is None:
        emit(arguments, {"name": found.name, "source": found.source}, lambda data: print(data["source"], end=""))
        return DONE
    path = Path(arguments.file)
    if path.suffix not in {".lua": [".lua"], ".yaml": [".yaml", ".yml"]}[f".{found.language}"]:
        raise Failure(CANNOT_CREATE, f"{path}: the template is {found.language}; give the file that ending")
    with path.open("x", encoding="utf-8") as file:
        file.write(found.source)
    emit(arguments, {"file": str(path)}, lambda _: print(f"{path}: a copy of the template {found.name}"))
    return DONE


def check(arguments: argparse.Namespace) -> int:
    """Syntax only."""
    return _validate(arguments, thorough=False)


def test(arguments: argparse.Namespace) -> int:
    """Syntax, semantics and speed."""
    if sys.stderr.isatty():
        print("trying it on a thousand situations ...", file=sys.stderr)
    return _validate(arguments, thorough=True)


def _validate(arguments: argparse.Namespace, *, thorough: bool) -> int:
    from headgate.bootstrap.policy_files import check_policy, read_policy

    found = check_policy(*read_policy(Path(arguments.file)), thorough=thorough)
    notes: list[dict[str, Any]] = [
        {
            "line": note.line,
            "column": note.column,
            "severity": note.severity,
            "code": note.code,
            "message": note.message,
            "suggestion": note.suggestion,
        }
        for note in found.diagnostics
    ]
    data: dict[str, Any] = {"ok": found.ok, "file": arguments.file, "diagnostics": notes}
    if thorough:
        data |= {"contexts": found.contexts, "p50_us": found.p50_us, "p99_us": found.p99_us}
    emit(arguments, data, lambda _: _show(data, [str(note) for note in found.diagnostics], thorough=thorough))
    return DONE if found.ok else FAILED


def _show(data: dict[str, Any], notes: list[str], *, thorough: bool) -> None:
    for note in notes:
        print(f"{data['file']}:{note}")
    if data["ok"] and thorough:
        times = f"p50 {data['p50_us']} us, p99 {data['p99_us']} us with 10,000 jobs"
        print(paint(f"{data['file']}: fine in {data['contexts']} situations; {times}", "green"))
    elif data["ok"]:
        print(paint(f"{data['file']}: fine", "green"))
