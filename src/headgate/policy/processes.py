"""The processes of the policy host as the engine holds them: how they start, what waits to be sent to them,
how they die.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

import msgspec

from headgate.policy.child import ChildSettings, Hello
from headgate.policy.stopwatch import seconds
from headgate.policy.wire import ASK, FEED, FORKED, HELLO, LOAD, Channel

# Feeds are collected up to here before they are sent on their own; a question takes them along sooner.
FEED_BYTES = 64 << 10
# A child further behind than this is replaced: forking brings it up to date faster than reading does.
BEHIND_BYTES = 4 << 20
_hello = msgspec.msgpack.Decoder(Hello)


def spawn(module: str, settings: ChildSettings, *further: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a module of ours on a socket, with nothing of the engine's environment but where Python finds its
    code.
    """
    ours, theirs = socket.socketpair()
    arguments = [sys.executable, "-m", module, str(theirs.fileno()), msgspec.json.encode(settings).decode()]
    arguments += further
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONHASHSEED": "0"}
    # The interpreter that runs us and a module of ours: nothing here comes from outside.
    process = subprocess.Popen(  # noqa: S603
        arguments,
        pass_fds=[theirs.fileno()],
        env=environment,
        stdin=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    theirs.close()
    return process, ours


class Peer:
    """A process with a mirror: deltas wait here until a question or their number sends them."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._backlog: list[bytes] = []
        self._waiting = 0

    def feed(self, data: bytes) -> None:
        """Deltas for this process."""
        self._backlog.append(data)
        self._waiting += len(data)
        if self._waiting > FEED_BYTES:
            self.channel.send(FEED, self._take())

    def ask(self, question: bytes) -> int:
        """Send what waits and the question in one frame; returns how many bytes the process has to read."""
        data = self._take() + question
        self.channel.send(ASK, data)
        return len(data) + self.channel.unsent

    def flush(self) -> None:
        """Send what waits."""
        if self._backlog:
            self.channel.send(FEED, self._take())

    def _take(self) -> bytes:
        data = b"".join(self._backlog)
        self._backlog.clear()
        self._waiting = 0
        return data


class HostProcess(Peer):
    """The trusted host."""

    def __init__(self, settings: ChildSettings) -> None:
        self._process, sock = spawn("headgate.policy.host_main", settings)
        super().__init__(Channel(sock, takes_fds=True))
        self.pid = self._process.pid
        self.said_hello = False
        self.asked = self.answered = 0

    @property
    def alive(self) -> bool:
        """Whether the process still runs and listens."""
        return not self.channel.closed and self._process.poll() is None

    def receive(self) -> tuple[list[bytes], list[ForkedChild]]:
        """Answers and newly forked children that have arrived."""
        answers, children = [], []
        for kind, payload in self.channel.receive():
            if kind == HELLO:
                self.said_hello = True
            elif kind == FORKED:
                children.append(self._adopt(payload))
            else:
                self.answered += 1
                answers.append(payload)
        return answers, children

    def ask(self, question: bytes) -> int:
        """Counted, so that an answer nobody waited for is not taken for the next."""
        self.asked += 1
        return super().ask(question)

    def _adopt(self, payload: bytes) -> ForkedChild:
        pid = msgspec.msgpack.decode(payload, type=int)
        fds = self.channel.fds
        sock = socket.socket(fileno=fds.pop(0))
        return ForkedChild(Channel(sock), pid, fds.pop(0) if fds else None)

    def stop(self) -> None:
        """End it and wait until it is gone."""
        self.channel.close()
        self._process.kill()
        self._process.wait()


class Child(Peer):
    """A process that runs the user's policy."""

    def __init__(self, channel: Channel, pid: int) -> None:
        super().__init__(channel)
        self.pid = pid
        self.born = seconds()
        self.hello: Hello | None = None
        self.spent_us = 0

    @property
    def ready(self) -> bool:
        """Whether it has loaded its policy and may be asked."""
        return self.hello is not None and not self.hello.kind

    def receive(self) -> list[bytes]:
        """Answers that have arrived; a hello is noted."""
        answers = []
        self.channel.pump()
        for kind, payload in self.channel.receive():
            if kind == HELLO and self.hello is None:
                self.hello = _hello.decode(payload)
            else:
                answers.append(payload)
        return answers

    def kill(self) -> None:
        """End it at once."""
        raise NotImplementedError


class ForkedChild(Child):
    """A child of the host, killed by its pidfd: no other process can be hit by mistake."""

    def __init__(self, channel: Channel, pid: int, pidfd: int | None) -> None:
        super().__init__(channel, pid)
        self._pidfd = pidfd

    def kill(self) -> None:
        """End it at once; it may be gone already."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
            self._pidfd = None
        self.channel.close()


class SpawnedChild(Child):
    """A child without a fork server: slower to start, told everything from the beginning."""

    def __init__(self, settings: ChildSettings, state: bytes, source: bytes) -> None:
        self._process, sock = spawn("headgate.policy.child", settings)
        super().__init__(Channel(sock), self._process.pid)
        self.channel.send(FEED, state)
        self.channel.send(LOAD, source)

    def kill(self) -> None:
        """End it at once and reap it."""
        self._process.kill()
        self._process.wait()
        self.channel.close()
