"""The trusted host: holds the mirror and the platform policy, answers when the user's policy cannot, forks
the children.

It never runs a line of a user's policy. It lives as long as the engine's end of its socket.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys

import msgspec

from headgate.policy import child
from headgate.policy.deltas import encode_struct
from headgate.policy.runtime import PLATFORM, Runtime
from headgate.policy.wire import ANSWER, ASK, FEED, FORK, FORKED, HELLO, Server, frame

# After a frame of this size the collector has so much to do that children should inherit it done.
BIG_FRAME = 1 << 20


def serve(sock: socket.socket, runtime: Runtime, settings: child.ChildSettings) -> None:
    """Frames of the engine, in order: the point in the stream where a child is forked defines what its mirror
    holds.
    """
    server = Server(sock)
    server.send(HELLO, encode_struct(os.getpid()))
    while (item := server.next()) is not None:
        kind, payload = item
        if kind == FORK:
            fork(sock, runtime, settings, payload)
        elif kind in (FEED, ASK):
            answer = runtime.feed(payload, PLATFORM)
            if kind == ASK:
                server.send(ANSWER, answer)
            if len(payload) > BIG_FRAME:
                runtime.collect()


def fork(engine: socket.socket, runtime: Runtime, settings: child.ChildSettings, source: bytes) -> None:
    """Fork a child, which will load the source after its lockdown; hand the engine its socket and its pidfd."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        engine.close()
        ours.close()
        become_child(theirs, runtime, settings, source)
    theirs.close()
    fds = [ours.fileno()]
    with contextlib.suppress(ProcessLookupError):  # it died at once; the engine sees the end of its stream
        fds.append(os.pidfd_open(pid))
    socket.send_fds(engine, [frame(FORKED, encode_struct(pid))], fds)
    ours.close()
    for fd in fds[1:]:
        os.close(fd)


def become_child(sock: socket.socket, runtime: Runtime, settings: child.ChildSettings, source: bytes) -> None:
    """The forked side; never returns."""
    status = 1
    try:
        child.run(sock, runtime, settings, source)
        status = 0
    finally:
        os._exit(status)


def main() -> None:
    """Entry: socket and settings come as arguments; children that end are not waited for."""
    settings = msgspec.json.decode(sys.argv[2], type=child.ChildSettings)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    runtime = Runtime(bounded=True)
    gc.freeze()
    with contextlib.suppress(ConnectionError):  # the engine left in mid-sentence
        serve(socket.socket(fileno=int(sys.argv[1])), runtime, settings)


if __name__ == "__main__":
    main()
