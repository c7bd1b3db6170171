"""The process in which a policy is looked at: as locked down as the one that decides, with our Lua hooks around it.

While the policy stands still, the Lua side waits on the one socket itself; the process ends when that closes.
"""

from __future__ import annotations

import os
import socket
import sys
from importlib import resources

import msgspec

from headgate.policy.child import ChildSettings, run
from headgate.policy.runtime import Runtime

_PARTS = ("link", "showing", "frames", "lines", "stepping", "tracing", "profiling", "start")


def parts() -> dict[str, bytes]:
    """The Lua of the debugger, in the order of loading."""
    files = resources.files("headgate.policy.debugging").joinpath("lua")
    return {name: files.joinpath(f"{name}.lua").read_bytes() for name in _PARTS}


def main() -> None:
    """Entry: socket, settings and the way of looking come as arguments."""
    settings = msgspec.json.decode(sys.argv[2], type=ChildSettings)
    sock = socket.socket(fileno=int(sys.argv[1]))
    runtime = Runtime(bounded=True, parts=parts())
    runtime.extras["start"](sys.argv[3].encode(), sock.fileno(), int(socket.MSG_DONTWAIT))
    run(sock, runtime, settings)
    os._exit(0)


if __name__ == "__main__":
    main()
