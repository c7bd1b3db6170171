"""One look at one decision, from outside: start the locked-down process, tell it everything, read its reports."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal, Self

import msgspec

from headgate.policy.child import ChildSettings, Hello
from headgate.policy.debugging.subject import Subject
from headgate.policy.deltas import Answer, decode_answer, encode
from headgate.policy.errors import InvalidPolicy
from headgate.policy.processes import spawn
from headgate.policy.stopwatch import seconds
from headgate.policy.wire import ANSWER, ASK, FEED, HELLO, LOAD, Channel

Way = Literal["stepping", "tracing", "profiling"]
BEGIN, STOPPED, OUTPUT, REPLY, TRACED, PROFILED, COMMAND = b"BSORTPX"
_START_S = 20.0
_hello = msgspec.msgpack.Decoder(Hello)


class SessionEnded(ConnectionError):
    """The process with the policy is gone."""


class Session:
    """The process of one subject. Closing it ends the process, whatever the policy does."""

    def __init__(self, subject: Subject, way: Way, *, heap_bytes: int = 256 << 20, lockdown: bool = True) -> None:
        self.subject = subject
        settings = ChildSettings(heap_bytes=heap_bytes, lockdown=lockdown)
        self._process, sock = spawn("headgate.policy.debugging.child", settings, way)
        self.channel = Channel(sock)
        self.hello: Hello | None = None
        self.answer: Answer | None = None
        self._arrived: deque[tuple[int, bytes]] = deque()
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        self.channel.send(FEED, self.subject.told)
        self.channel.send(LOAD, self.subject.lua.encode())
        kind, payload = self.next(_START_S)
        hello = self.hello = _hello.decode(payload) if kind == HELLO else None
        if hello is None or hello.kind:
            text = "the process did not start" if hello is None else f"line {hello.line or 1}: {hello.message}"
            raise InvalidPolicy(text, field="policy")

    @property
    def pid(self) -> int:
        """The process, for whoever watches it."""
        return self._process.pid

    def ask(self, times: int = 1) -> None:
        """Put the question, once or many times in a row."""
        self.channel.send(ASK, encode([self.subject.question] * times))

    def command(self, *parts: Any) -> None:
        """Tell the Lua side something: number, name, arguments."""
        self.channel.send(COMMAND, msgspec.msgpack.encode(parts))

    def receive(self) -> list[tuple[int, bytes]]:
        """What has arrived; raises `SessionEnded` when nothing will any more."""
        self.channel.pump()
        frames = self.channel.receive()
        if not frames and self.channel.closed:
            raise SessionEnded("the process with the policy is gone (its memory, its time, or a kill)")
        return frames

    def next(self, limit_s: float) -> tuple[int, bytes]:
        """Wait for one frame; `SessionEnded` when the time is up."""
        deadline = seconds() + limit_s
        while not self._arrived:
            self._arrived.extend(self.receive())
            left = deadline - seconds()
            if not self._arrived and left <= 0:
                raise SessionEnded(f"nothing came within {limit_s:g} s")
            if not self._arrived:
                poller = select.poll()
                poller.register(self.channel, select.POLLIN | (select.POLLOUT if self.channel.unsent else 0))
                poller.poll(left * 1000)
        return self._arrived.popleft()

    def until_answer(self, limit_s: float) -> Iterator[tuple[int, list[Any]]]:
        """Reports of the Lua side; ends after the answer, which is then in `answer`."""
        deadline = seconds() + limit_s
        while True:
            kind, payload = self.next(deadline - seconds())
            if kind == ANSWER:
                self.answer = decode_answer(payload)
                return
            yield kind, report(payload)

    def close(self) -> None:
        """End the process and reap it."""
        self._process.kill()
        self._process.wait()
        self.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def report(payload: bytes) -> list[Any]:
    """A list as the Lua side sends it; texts need not be UTF-8 there."""
    found: list[Any] = _text(msgspec.msgpack.decode(payload))
    return found


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_text(item) for item in value] if isinstance(value, list) else value


def verdict(subject: Subject, answer: Answer) -> str:
    """How an answer compares with what is known."""
    if answer.error is not None:
        return f"the policy failed: {answer.error.message}"
    said = f"{len(answer.actions)} answers, stopped by {answer.stopped}"
    if subject.recorded is None:
        return said
    same = answer.actions == subject.recorded
    return f"{said}; {'the same as recorded' if same else 'NOT the same as recorded'}"
