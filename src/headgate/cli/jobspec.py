"""What `submit` and `run` say about a job, as options and as the body of the call."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from headgate.cli.exits import BAD_INPUT, NOT_FOUND, USAGE, Failure


def job_options(parser: argparse.ArgumentParser) -> None:
    """The fields of a job."""
    parser.add_argument("words", nargs="*", metavar="-- CMD", help="the command, after --")
    group = parser.add_argument_group("job")
    group.add_argument("--name", help="what to call it")
    group.add_argument("--type", help="its type; without a command, the handler that workers have for it")
    group.add_argument("-p", "--priority", help="high, normal, low, background, ... or 1 (lowest) to 5")
    group.add_argument("-u", "--units", type=int, help="capacity units it takes (default 1)")
    group.add_argument("--tenant", help="on whose account")
    group.add_argument("--pool", help="only on machines of this pool")
    group.add_argument("-r", "--resource", action="append", metavar="NAME=AMOUNT", help="such as cpu=2, memory=8GB")
    group.add_argument("-l", "--label", action="append", metavar="NAME=VALUE", help="a label; may be repeated")
    group.add_argument("--require", action="append", metavar="NAME=VALUE", help="a label that the worker must have")
    group.add_argument("--after", action="append", metavar="JOB", help="run only when this job has completed")
    group.add_argument("--not-before", metavar="TIME", help="ISO 8601, or seconds since 1970")
    group.add_argument("--deadline", metavar="TIME", help="when it is no longer wanted")
    group.add_argument("--timeout", metavar="SPAN", help="the longest it may run, such as 30s or 2h")
    group.add_argument("--attempts", type=int, metavar="N", help="tries in all (default 1)")
    group.add_argument("--key", metavar="KEY", help="idempotency key: the same key submits only once")
    group.add_argument("--cwd", metavar="DIR", help="where the command runs (default: here, on a local server)")
    group.add_argument("--env", action="append", metavar="NAME=VALUE", help="a variable of the command")
    group.add_argument("--handler", metavar="MODULE:FUNCTION", help="a Python function instead of a command")
    group.add_argument("--payload", metavar="JSON", help="what the function gets; @FILE reads a file")


def job_body(arguments: argparse.Namespace, *, local: bool) -> dict[str, Any]:
    """The job that the options describe."""
    body: dict[str, Any] = {
        "name": arguments.name,
        "type": arguments.type,
        "priority": _priority(arguments.priority),
        "units": arguments.units,
        "tenant": arguments.tenant,
        "pool": arguments.pool,
        "resources": name_values(arguments.resource, "--resource"),
        "labels": name_values(arguments.label, "--label"),
        "requires": name_values(arguments.require, "--require"),
        "dependencies": arguments.after,
        "not_before": _instant(arguments.not_before),
        "deadline": _instant(arguments.deadline),
        "timeout": arguments.timeout,
        "retry": arguments.attempts,
        "idempotency_key": arguments.key,
        "payload": _payload(arguments.payload),
        "run": _run(arguments, local=local),
    }
    if body["name"] is None and body["run"]["kind"] == "command":
        body["name"] = Path(body["run"]["argv"][0]).name[:256] or None
    return {name: value for name, value in body.items() if value is not None}


def command_of(arguments: argparse.Namespace) -> list[str]:
    """The words of the command, with or without `--` in front."""
    return [*arguments.words, *arguments.rest]


def _run(arguments: argparse.Namespace, *, local: bool) -> dict[str, Any]:
    argv = command_of(arguments)
    if arguments.handler:
        if argv:
            raise Failure(USAGE, "a job is a command or --handler, not both")
        return {"kind": "python", "handler": arguments.handler}
    if not argv and arguments.type:
        return {"kind": "python"}  # a worker that has a handler for the type knows what to do
    if not argv:
        raise Failure(USAGE, "what to run comes after --, for example: -- echo hello; or name a --type or a --handler")
    run: dict[str, Any] = {"kind": "command", "argv": argv}
    cwd = arguments.cwd or (str(Path.cwd()) if local else None)
    if cwd:
        run["cwd"] = str(Path(cwd).absolute()) if local else cwd
    if arguments.env:
        run["env"] = name_values(arguments.env, "--env")
    return run


def name_values(given: list[str] | None, flag: str) -> dict[str, str] | None:
    """`NAME=VALUE` options as an object; none if there are none."""
    if not given:
        return None
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(USAGE, f"{flag} {text}: must be NAME=VALUE")
        found[name] = value
    return found


def _priority(text: str | None) -> str | int | None:
    return int(text) if text is not None and text.isdigit() else text


def _instant(text: str | None) -> str | float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    if text.startswith("@"):
        text = read_input(text[1:])
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failure(BAD_INPUT, f"--payload is not JSON: {error}") from None


def read_input(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(NOT_FOUND, f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
