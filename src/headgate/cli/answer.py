"""How commands answer: in words or as JSON, with an exit code, and never with a traceback.

0: done, and all is well. 1: it could not be done, or something is wrong with what was looked at. 2: the command line
was not understood.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

DONE, FAILED, MISUSED = 0, 1, 2
Command = Callable[[argparse.Namespace], int]


def say(arguments: argparse.Namespace, text: str, **facts: Any) -> None:
    """Print the words, or the facts if JSON was asked for."""
    print(json.dumps(facts) if arguments.json else text)


def careful(command: Command, arguments: argparse.Namespace) -> int:
    """Run a command; what goes wrong becomes one line."""
    from headgate.bootstrap.upkeep import HeadgateError

    try:
        return command(arguments)
    except HeadgateError as error:
        return _refused(arguments, error.code, str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _refused(arguments, "os_error", f"{where}{error.strerror or error}")


def _refused(arguments: argparse.Namespace, code: str, message: str) -> int:
    line = " ".join(message.split())
    if arguments.json:
        print(json.dumps({"ok": False, "error": {"code": code, "message": line}}))
    else:
        print(f"headgate: {line}", file=sys.stderr)
    return FAILED
