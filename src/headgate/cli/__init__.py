"""The command line: thin commands over the client and what bootstrap wires. No scheduling rule may enter here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from headgate.cli.exits import BROKEN_PIPE, INTERRUPTED, Failure


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from headgate.cli.frame import parse

    given = list(sys.argv[1:] if argv is None else argv)
    arguments = parse(given)
    from headgate.cli.terminal import guarded_output

    try:
        with guarded_output():
            code: int = arguments.run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read us has seen enough; Python would complain when it flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - expected ones become a line, others are raised again
        return _failed(arguments.command, error, as_json=getattr(arguments, "json", False))
    return code


def _failed(command: str, error: Exception, *, as_json: bool) -> int:
    """Say in one line what went wrong, in JSON where that was asked for; what nobody expected keeps its traceback."""
    code = getattr(error, "code", "error")
    if not isinstance(error, Failure):
        from headgate.bootstrap.failures import failure_of

        known = failure_of(error)
        if known is None:
            raise error
        error = Failure(*known)
    if as_json:
        import json

        name = error.name if isinstance(code, int) else code
        print(json.dumps({"ok": False, "error": {"code": name, "message": str(error)}}))
    else:
        from headgate.cli.terminal import harmless

        print(f"headgate {command}: {harmless(str(error))}", file=sys.stderr)
    return error.code
