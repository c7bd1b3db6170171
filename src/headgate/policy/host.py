"""The engine's side of the policy host: state goes out, questions are answered in bounded time, whatever a
policy does.

The user's policy is asked in its child. On time-out, death, an error or an invalid answer the trusted host
answers the same question with the platform policy; a child that failed as a process is killed and forked
anew. Nothing here waits longer than the limits say, and sending never waits at all.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from headgate.policy import answers
from headgate.policy.child import ChildSettings, Hello
from headgate.policy.deltas import Answer, Delta, Question, Reset, decode_answer, encode
from headgate.policy.driving import Conversation, adrive, drive
from headgate.policy.processes import BEHIND_BYTES, FEED_BYTES, Child, HostProcess, SpawnedChild
from headgate.policy.runtime import PolicyRefused, platform_version, refuse_at_sight
from headgate.policy.seat import Seat
from headgate.policy.stopwatch import seconds
from headgate.policy.verdict import FailureKind, HostSettings, HostStatus, Verdict
from headgate.policy.wire import FORK, WireError

# Reading a big change is not the policy's fault: beyond the usual backlog the limit grows with what is yet to be read.
_READ_BYTES_PER_S = 4 << 20
_KINDS = {"error": FailureKind.ERROR, "invalid": FailureKind.INVALID, "memory": FailureKind.MEMORY}


def _reading_s(to_read: int) -> float:
    return max(0, to_read - FEED_BYTES) / _READ_BYTES_PER_S


class HostUnavailable(RuntimeError):
    """The policy host did not start in time."""


class _ChildFailed(Exception):
    """The user's policy has no valid answer."""

    def __init__(self, kind: FailureKind, message: str, traceback: str = "", answer: Answer | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.traceback, self.answer = kind, message, traceback, answer


class PolicyHost:
    """Owns the host process and its child. `resync` gives the full state when a process has to be told
    everything again.
    """

    def __init__(
        self, settings: HostSettings | None = None, resync: Callable[[], Iterable[Delta]] | None = None
    ) -> None:
        self.settings = settings or HostSettings()
        self._resync = resync or (lambda: ())
        self._child_settings = ChildSettings(
            heap_bytes=self.settings.heap_bytes,
            cpu_s=self.settings.cpu_s,
            lockdown=self.settings.lockdown,
            require_seccomp=self.settings.mode == "platform",
        )
        can_fork = hasattr(os, "fork") and hasattr(os, "pidfd_open") and not self.settings.portable
        self.isolation = "forked" if can_fork else "portable"
        self.failures: Counter[str] = Counter()
        self._host: HostProcess | None = None
        self._seat: Seat | None = None
        self._candidate: Seat | None = None
        self._births: deque[Seat] = deque()
        self._known = answers.Known()
        self._asking = False
        self._unnoted: list[Delta] = []
        self._forks = self._host_starts = 0
        self._last_hello: Hello | None = None

    # Life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the host and wait until it listens."""
        self._start_host()
        drive(self._until_hello())

    def stop(self) -> None:
        """End all processes."""
        for seat in self._seats():
            seat.drop()
        if self._host is not None:
            self._host.stop()
            self._host = None

    def pids(self) -> tuple[int | None, int | None]:
        """The processes of host and child, for whoever watches them."""
        child = self._seat.child if self._seat else None
        return self._host.pid if self._host else None, child.pid if child else None

    def _seats(self) -> list[Seat]:
        return [seat for seat in (self._seat, self._candidate) if seat is not None]

    def status(self) -> HostStatus:
        """How things stand, without asking anybody."""
        self._settle()
        lockdown = self._last_hello.lockdown if self._last_hello else None
        missing = lockdown.reasons if lockdown else {}
        reasons = [f"{wall}: {reason}" for wall, reason in sorted(missing.items())]
        if self.isolation == "portable":
            reasons.append("isolation: no fork server, a plain process is killed at the limit")
        return HostStatus(
            host_alive=self._host is not None and self._host.alive,
            child_ready=self._seat is not None and self._seat.ready,
            isolation="forked" if self.isolation == "forked" else "portable",
            lockdown=lockdown,
            policy_version=self._seat.version if self._seat else None,
            platform_version=platform_version(),
            forks=self._forks,
            host_starts=self._host_starts,
            failures=dict(self.failures),
            degraded=reasons,
        )

    def _start_host(self) -> None:
        self._host = HostProcess(self._child_settings)
        self._host_starts += 1
        self._births.clear()
        state = [Reset(), *self._resync()]
        self._known.note(state)
        self._host.feed(encode(state))
        self._host.flush()

    def _until_hello(self) -> Conversation[None]:
        host = self._require_host()
        deadline = seconds() + self.settings.start_limit_ms / 1000
        while not host.said_hello:
            if not host.alive or seconds() > deadline:
                raise HostUnavailable("the policy host did not start")
            yield host.channel, deadline
            host.channel.pump()
            host.receive()

    def _require_host(self) -> HostProcess:
        if self._host is None:
            raise HostUnavailable("the policy host is not started")
        return self._host

    # The user's policy --------------------------------------------------------------------------------------

    def load(self, source: str, version: str) -> None:
        """Put a policy in charge; on `PolicyRefused` the one before stays."""
        drive(self._load(source.encode(), version))

    async def aload(self, source: str, version: str) -> None:
        """The same on the loop."""
        await adrive(self._load(source.encode(), version))

    def unload(self) -> None:
        """Let the platform policy decide alone."""
        if self._seat is not None:
            self._seat.drop()
            self._seat = None

    def wait_ready(self, timeout_s: float = 10.0) -> bool:
        """Wait until the child has its policy; for tests, benchmarks and orderly starts."""
        if self._seat is None:
            return False
        return drive(self._until_hello_of(self._seat, seconds() + timeout_s))

    def _load(self, source: bytes, version: str) -> Conversation[None]:
        refuse_at_sight(source)
        candidate = self._candidate = Seat(source, version)
        try:
            self._fork(candidate)
            limit = seconds() + self.settings.start_limit_ms / 1000
            if (yield from self._until_hello_of(candidate, limit)):
                self.unload()
                self._seat = candidate
                return
            hello = candidate.child.hello if candidate.child else None
            candidate.drop()
        finally:
            self._candidate = None
        if hello is None:
            raise PolicyRefused("timeout", "the policy did not load within its limit")
        raise PolicyRefused(hello.kind, hello.message, hello.line, hello.column)

    def _until_hello_of(self, seat: Seat, deadline: float) -> Conversation[bool]:
        while True:
            self._settle()
            host, child = self._host, seat.child
            if child is not None and child.hello is not None:
                return child.ready
            if host is None or not host.alive or (child is None and not seat.expecting):
                return False
            end = deadline if child is None else min(deadline, child.born + self._load_limit_s)
            if seconds() > end or (child is not None and child.channel.closed):
                return False
            yield (child or host).channel, end

    @property
    def _load_limit_s(self) -> float:
        extra = self.settings.start_limit_ms if self.isolation == "portable" else 0
        return (self.settings.load_limit_ms + extra) / 1000

    # State in, decisions out --------------------------------------------------------------------------------

    def feed(self, deltas: Sequence[Delta]) -> None:
        """Tell what changed. Never waits; it travels with the next question at the latest."""
        if self._asking:
            self._unnoted += deltas
        else:
            self._known.note(deltas)
        data = encode(deltas)
        if self._host is not None:
            self._host.feed(data)
        for seat in self._seats():
            seat.feed(data)

    def ask(self, question: Question) -> Verdict:
        """Decide; returns within the limit plus the platform policy's time."""
        return drive(self._decide(question))

    async def aask(self, question: Question) -> Verdict:
        """The same on the loop, which is free meanwhile."""
        return await adrive(self._decide(question))

    def _decide(self, question: Question) -> Conversation[Verdict]:
        if self._asking:
            raise RuntimeError("one question at a time")
        self._asking, started = True, seconds()
        try:
            self._settle()
            asked = encode([question])
            if self._seat is None:
                return (yield from self._platform(asked, started, None))
            try:
                return (yield from self._user(self._seat, asked, started))
            except _ChildFailed as failed:
                self.failures[failed.kind.value] += 1
                return (yield from self._platform(asked, started, failed))
        finally:
            self._asking = False
            self._known.note(self._unnoted)
            self._unnoted = []

    def _user(self, seat: Seat, asked: bytes, started: float) -> Conversation[Verdict]:
        child = seat.child
        if child is None or child.hello is None:
            raise _ChildFailed(FailureKind.BUSY, "a new child is not ready yet")
        if child.hello.kind:
            raise _ChildFailed(FailureKind.ERROR, f"the policy does not load any more: {child.hello.message}")
        if child.channel.unsent > BEHIND_BYTES:
            seat.drop()
            raise _ChildFailed(FailureKind.BUSY, "the child does not read")
        to_read = child.ask(asked)
        deadline = started + self.settings.limit_ms / 1000 + _reading_s(to_read)
        try:
            answer = yield from self._answer_of(child, deadline)
        except (_ChildFailed, GeneratorExit):  # whoever stopped waiting must not get this answer to the next question
            seat.drop()
            raise
        child.spent_us += answer.took_us
        if child.spent_us > self.settings.cpu_s * 500_000 or (answer.error and answer.error.kind == "memory"):
            seat.drop()
        if answer.error is not None:
            error = answer.error
            kind = _KINDS.get(error.kind, FailureKind.INVALID)
            raise _ChildFailed(kind, error.message, error.traceback, answer)
        return self._verdict(answer, self._checked(answer), seat.version, started)

    def _answer_of(self, child: Child, deadline: float) -> Conversation[Answer]:
        while True:
            yield child.channel, deadline
            try:
                arrived = child.receive()
                if arrived:
                    return decode_answer(arrived[0])
            except (WireError, msgspec.DecodeError) as error:
                raise _ChildFailed(FailureKind.INVALID, f"not an answer: {error}") from error
            if child.channel.closed:
                raise _ChildFailed(FailureKind.DEATH, "the child died")
            if seconds() >= deadline:
                raise _ChildFailed(FailureKind.TIMEOUT, f"no answer within {self.settings.limit_ms} ms")

    def _checked(self, answer: Answer) -> list[answers.Action]:
        try:
            return answers.check(answer.actions, self._known, self.settings.max_actions)
        except answers.InvalidAnswer as error:
            raise _ChildFailed(FailureKind.INVALID, str(error), answer=answer) from error

    def _platform(self, asked: bytes, started: float, failed: _ChildFailed | None) -> Conversation[Verdict]:
        host = self._require_host()
        to_read, number = host.ask(asked), host.asked
        self._fork_if_needed()
        deadline = seconds() + self.settings.platform_limit_ms / 1000 + _reading_s(to_read)
        while True:
            yield host.channel, deadline
            host.channel.pump()
            arrived, children = host.receive()
            self._adopt(children)
            if arrived and host.answered == number:
                answer = decode_answer(arrived[-1])
                actions = answers.check(answer.actions, self._known, self.settings.max_actions)
                return self._verdict(answer, actions, None, started, failed)
            if not host.alive or seconds() >= deadline:
                return self._without_host(started, failed)

    def _without_host(self, started: float, failed: _ChildFailed | None) -> Verdict:
        """Nobody can decide: nothing happens this cycle, and the host is started again and told everything."""
        self.failures["host"] += 1
        self._restart_host()
        failed = failed or _ChildFailed(FailureKind.DEATH, "the policy host died")
        return self._verdict(Answer([]), [], None, started, failed)

    def _verdict(
        self,
        answer: Answer,
        actions: list[answers.Action],
        user_version: str | None,
        started: float,
        failed: _ChildFailed | None = None,
    ) -> Verdict:
        return Verdict(
            answer=answer,
            actions=actions,
            decided_by="platform" if user_version is None else "user",
            version=platform_version() if user_version is None else user_version,
            failure=failed.kind if failed else None,
            message=failed.message if failed else "",
            traceback=failed.traceback if failed else "",
            waited_us=int((seconds() - started) * 1e6),
            refused=failed.answer if failed else None,
        )

    # Births and deaths --------------------------------------------------------------------------------------

    def _restart_host(self) -> None:
        for seat in self._seats():
            seat.drop()
        self._require_host().stop()
        self._start_host()
        self._fork_if_needed()

    def _fork_if_needed(self) -> None:
        seat = self._seat
        if seat is not None and seat.child is None and not seat.expecting:
            self._fork(seat)

    def _fork(self, seat: Seat) -> None:
        """Have a child made. What the host has been told before this point is in the child's mirror too."""
        self._forks += 1
        if self.isolation == "portable":
            seat.adopt(SpawnedChild(self._child_settings, encode([Reset(), *self._resync()]), seat.source))
            return
        host = self._require_host()
        host.flush()
        host.channel.send(FORK, seat.source)
        seat.expect()
        self._births.append(seat)

    def _adopt(self, children: Iterable[Child]) -> None:
        for child in children:
            seat = self._births.popleft()
            if seat.expecting and seat in self._seats():
                seat.adopt(child)
            else:
                child.kill()

    def _note_hello(self, child: Child) -> None:
        if child.hello is not None:
            self._last_hello = child.hello

    def _settle(self) -> None:
        """Take in what has arrived meanwhile: newly forked children, their first word, deaths."""
        if self._host is None:
            return
        if not self._host.alive:
            self._restart_host()
        self._host.channel.pump()
        self._adopt(self._host.receive()[1])
        for seat in self._seats():
            if seat.child is not None and seat.child.hello is None:
                seat.child.receive()
                self._note_hello(seat.child)
            if seat.overdue(self._load_limit_s) and seat is self._seat:
                self.failures[FailureKind.TIMEOUT.value] += 1
                seat.drop()
