"""`headgate policy` against a server."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path
from typing import Any

from headgate.cli.api import Api, Refusal, connect
from headgate.cli.exits import DONE, FAILED, NOT_FOUND, Failure
from headgate.cli.jobview import instant
from headgate.cli.output import emit, paint, table

BASE = "/v2/admin/scheduler"
PLATFORM = "platform"


def deploy(arguments: argparse.Namespace) -> int:
    """Hand in a file."""
    from headgate.bootstrap.policy_files import read_policy

    language, source = read_policy(Path(arguments.file))
    body: dict[str, Any] = {"language": language, "source": source, "why": arguments.why}
    body["mode"] = "shadow" if arguments.shadow else "active"
    if arguments.name:
        body["name"] = arguments.name
    if arguments.base:
        body["base_version"] = None if arguments.base == PLATFORM else arguments.base
    if arguments.force:
        body["force"] = True
    try:
        answer = connect(arguments).post(f"{BASE}/deploy", body)
    except Refusal as refusal:
        for note in refusal.problem.get("diagnostics", []):
            print(f"{arguments.file}:{note['line']}:{note['column']}: {note['message']}", file=sys.stderr)
        raise
    verb = "watches" if arguments.shadow else "decides"
    emit(arguments, answer, lambda data: print(f"{data['id']} {verb} from now on"))
    return DONE


def versions(arguments: argparse.Namespace) -> int:
    """All versions."""
    emit(arguments, connect(arguments).get(f"{BASE}/versions"), _show_versions)
    return DONE


def show(arguments: argparse.Namespace) -> int:
    """The source of one."""
    api = connect(arguments)
    found = _version(api, arguments.version)
    text = found["lua"] if arguments.lua and "lua" in found else found["source"]
    emit(arguments, found, lambda _: print(text, end="" if text.endswith("\n") else "\n"))
    return DONE


def diff(arguments: argparse.Namespace) -> int:
    """Two sources side by side; 1 if they differ."""
    api = connect(arguments)
    other = arguments.other or api.get(f"{BASE}/versions").get("active") or PLATFORM
    old, new = _source(api, other), _source(api, arguments.one)
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), other, arguments.one, lineterm=""))
    emit(arguments, {"same": not lines, "diff": lines}, lambda _: _show_diff(lines))
    return FAILED if lines else DONE


def rollback(arguments: argparse.Namespace) -> int:
    """Back."""
    body = {"to": arguments.version, "why": arguments.why}
    answer = connect(arguments).post(f"{BASE}/rollback", body)
    emit(arguments, answer, lambda data: print(f"{data.get('active') or 'the platform policy'} decides from now on"))
    return DONE


def enable(arguments: argparse.Namespace) -> int:
    """Re-arm."""
    answer = connect(arguments).post(f"{BASE}/enable")
    emit(arguments, answer, lambda data: print(f"{data.get('active') or 'the platform policy'} decides from now on"))
    return DONE


def _version(api: Api, name: str) -> dict[str, Any]:
    if name == PLATFORM:
        found: dict[str, Any] = api.get(f"{BASE}/platform-source")
        return found
    listed = api.get(f"{BASE}/versions")["versions"]
    for version in reversed(listed):
        if name in (version["id"], version["name"]):
            return dict(version)
    raise Failure(NOT_FOUND, f"there is no policy {name!r}")


def _source(api: Api, name: str) -> str:
    path = Path(name)
    if path.suffix in (".lua", ".yaml", ".yml") and path.is_file():
        return path.read_text("utf-8")
    return str(_version(api, name)["source"])


def _show_versions(answer: dict[str, Any]) -> None:
    active, shadow = answer.get("active"), answer.get("shadow")
    tripped = answer.get("tripped")
    rows = [
        (
            version["id"],
            version["version"],
            version["language"],
            instant(version.get("created_at")),
            _role(version["id"], active, shadow, tripped),
            version.get("note"),
        )
        for version in answer["versions"]
    ]
    rows.append((PLATFORM, "", "lua", None, "" if active and not tripped else paint("decides", "green"), ""))
    table(("version", "number", "language", "since", "role", "note"), rows)
    if answer.get("experiment"):
        print(paint(f"experiment {answer['experiment']} runs: its arms decide until it is stopped", "yellow"))
    if tripped:
        print(paint(f"{tripped['version']} was taken out ({tripped['kind']}): {tripped['message']}", "red"))


def _role(version: str, active: str | None, shadow: str | None, tripped: Any) -> str:
    if version == active:
        return paint("taken out", "red") if tripped else paint("decides", "green")
    return paint("watches", "yellow") if version == shadow else ""


def _show_diff(lines: list[str]) -> None:
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "blue"}.get(line[:1])
        print(paint(line, colour))
