"""`headgate top`: a live view in the terminal."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from headgate.cli.api import Api, connect
from headgate.cli.exits import DONE
from headgate.cli.options import server_options

EXAMPLES = """
headgate top                 until q or Ctrl-C
headgate top --once          one look, also without a terminal
"""
_CLEAR = "\x1b[H\x1b[J"
_ALTERNATE, _BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--once", action="store_true", help="show it once and exit")
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="S", help="seconds between two looks (default 1)"
    )
    server_options(parser)
    parser.set_defaults(run=_top)


def _top(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    if arguments.json or arguments.once or not sys.stdout.isatty():
        look = _look(api)
        if arguments.json:
            from headgate.cli.output import emit

            emit(arguments, look, lambda _: None)
        else:
            from headgate.cli.top_view import render

            print(render(look, 200))
        return DONE
    return _live(api, max(0.1, arguments.interval))


def _live(api: Api, interval: float) -> int:
    import shutil

    from headgate.cli.keys import single_keys
    from headgate.cli.terminal import harmless, unguarded
    from headgate.cli.top_view import render

    screen = unguarded()
    screen.write(_ALTERNATE)
    try:
        with single_keys() as pressed:
            while True:
                size = shutil.get_terminal_size()
                screen.write(_CLEAR + harmless(render(_look(api), size.lines - 1)))
                screen.flush()
                if "q" in pressed(interval).lower():
                    return DONE
    except KeyboardInterrupt:
        return DONE
    finally:
        screen.write(_BACK)


def _look(api: Api) -> dict[str, Any]:
    """One look at everything."""
    return {
        "status": api.get("/v2/status"),
        "pools": api.get("/v2/pools")["pools"],
        "workers": api.get("/v2/workers")["workers"],
        "running": api.get("/v2/jobs", state="running,leased", limit=50)["jobs"],
        "waiting": api.get("/v2/jobs", state="queued,blocked", order="oldest", limit=20)["jobs"],
    }
