"""The process that runs a user's policy: forked from the warm host, locked down, killed at its limit.

After the lockdown it can compute, read and write its one socket, and end. Nothing here is trusted by the
engine.
"""

from __future__ import annotations

import os
import socket
import sys

import msgspec
from lupa import luajit21

from headgate.policy import lockdown
from headgate.policy.deltas import Answer, Failure, encode_struct
from headgate.policy.runtime import USER, PolicyRefused, Runtime
from headgate.policy.wire import ANSWER, ASK, FEED, HELLO, LOAD, Server

MIRROR_ROOM = 16 << 20


class ChildSettings(msgspec.Struct, frozen=True):
    """What the engine wants of a child. Where seccomp is required and missing, no user code runs."""

    heap_bytes: int = 64 << 20
    cpu_s: int = 600
    lockdown: bool = True
    require_seccomp: bool = False


class Hello(msgspec.Struct, array_like=True, frozen=True):
    """The child's first word: how well it is locked down, and what is wrong with the policy, if anything."""

    lockdown: lockdown.Lockdown
    kind: str = ""
    message: str = ""
    line: int | None = None
    column: int | None = None


def run(sock: socket.socket, runtime: Runtime, settings: ChildSettings, source: bytes | None = None) -> None:
    """Serve one engine until it leaves or kills us. Without a source, state and source come first over the
    socket.
    """
    server = Server(sock)
    mirror = runtime.memory_used() + MIRROR_ROOM
    runtime.limit_heap(settings.heap_bytes, mirror)
    extra = settings.heap_bytes + mirror + (64 << 20)
    status = lockdown.apply(sock.fileno(), lockdown.Limits(extra, settings.cpu_s, settings.lockdown))
    if source is not None:
        server.send(HELLO, load(runtime, source, status, settings))
    while (item := server.next()) is not None:
        kind, payload = item
        if kind == LOAD:
            server.send(HELLO, load(runtime, payload, status, settings))
        elif kind == ASK:
            server.send(ANSWER, feed(runtime, payload))
        elif kind == FEED:
            feed(runtime, payload)


def load(runtime: Runtime, source: bytes, status: lockdown.Lockdown, settings: ChildSettings) -> bytes:
    """Load the policy and say how that went."""
    if settings.require_seccomp and not status.seccomp:
        return encode_struct(Hello(status, "isolation", f"no seccomp: {status.reasons.get('seccomp')}"))
    try:
        runtime.load(source, USER)
    except PolicyRefused as refused:
        return encode_struct(Hello(status, refused.kind, refused.message, refused.line, refused.column))
    except MemoryError:
        return encode_struct(Hello(status, "memory", "loading the policy used up its memory"))
    except luajit21.LuaError as error:
        return encode_struct(Hello(status, "error", str(error)[:1000]))
    return encode_struct(Hello(status))


def feed(runtime: Runtime, payload: bytes) -> bytes:
    """The answer, or why there is none: a runtime that ran out of memory cannot even say so itself."""
    try:
        return runtime.feed(payload, USER)
    except MemoryError:
        return encode_struct(Answer([], error=Failure("memory", "the policy used up its memory")))
    except luajit21.LuaError as error:
        return encode_struct(Answer([], error=Failure("error", str(error)[:1000])))


def main() -> None:
    """Entry of a child that was spawned instead of forked: socket and settings come as arguments."""
    settings = msgspec.json.decode(sys.argv[2], type=ChildSettings)
    sock = socket.socket(fileno=int(sys.argv[1]))
    run(sock, Runtime(bounded=True), settings)
    os._exit(0)


if __name__ == "__main__":
    main()
