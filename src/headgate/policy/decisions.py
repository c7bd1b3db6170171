"""Decisions: what was asked, what was answered, what became of it; enough to ask again exactly.

A record holds the very bytes that the policy was told since the record before. Every so often a record is a key
frame that holds the whole state, so a decision is replayed from the last key frame before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.core.commands import Scheduled
from headgate.policy.deltas import Answer, Question, encode
from headgate.policy.host import PolicyHost
from headgate.policy.verdict import HostSettings, Verdict

KIND = "decision"
_encode = msgspec.msgpack.Encoder().encode


class Refused(msgspec.Struct, frozen=True, array_like=True):
    """An action that did not hold."""

    action: str
    job_id: str
    code: str
    detail: str


class ShadowSaid(msgspec.Struct, frozen=True, array_like=True):
    """What the version that only watches would have done."""

    version: str
    actions: list[dict[str, Any]]
    agrees: bool
    failure: str = ""


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """One decision."""

    id: str
    number: int
    at: int
    decided_by: str
    version: str
    runtime: str
    question: Question
    keyframe: bool
    frame: bytes
    actions: list[dict[str, Any]]
    trace: list[str]
    logs: list[tuple[str, str]]
    failure: str
    message: str
    traceback: str
    refused: list[Refused]
    took_us: int
    waited_us: int
    shadow: ShadowSaid | None = None
    attempted: str = ""
    """The user's version that was asked, where the platform policy had to decide."""


class Difference(msgspec.Struct, frozen=True):
    """A decision under another policy."""

    same: bool
    recorded: list[dict[str, Any]]
    replayed: list[dict[str, Any]]
    failure: str = ""
    message: str = ""


class DecisionLog:
    """Turns verdicts into records; decides when a key frame is due."""

    def __init__(self) -> None:
        self._number = 0
        self._since_key = 0
        self._key_size = 0

    def wants_key(self) -> bool:
        """Whether the next record should hold the whole state: replaying must not cost much more than that."""
        return self._key_size == 0 or self._since_key > 2 * self._key_size + (1 << 16)

    def restart(self) -> None:
        """The mirror begins anew: so do the records."""
        self._key_size = 0

    def told(self, frame: bytes, *, key: bool) -> None:
        """Count what a replay would have to read."""
        self._key_size = max(1, len(frame)) if key else self._key_size
        self._since_key = 0 if key else self._since_key + len(frame)

    def next_id(self, now: int) -> str:
        """The name of the next decision: it sorts by time."""
        self._number += 1
        return f"{now:013d}-{self._number:06d}"


def record(
    decision_id: str,
    now: int,
    question: Question,
    frame: bytes,
    verdict: Verdict,
    scheduled: Scheduled,
    *,
    key: bool,
    shadow: ShadowSaid | None = None,
    attempted: str = "",
) -> Decision:
    """What is kept of a decision."""
    answer = verdict.answer
    return Decision(
        decision_id,
        int(decision_id.rpartition("-")[2]),
        now,
        verdict.decided_by,
        verdict.version,
        answer.runtime,
        question,
        key,
        frame,
        answer.actions,
        answer.trace,
        answer.logs,
        verdict.failure or "",
        verdict.message,
        verdict.traceback,
        [_refused(refusal) for refusal in scheduled.refused],
        answer.took_us,
        verdict.waited_us,
        shadow,
        attempted,
    )


def _refused(refusal: Any) -> Refused:
    action, reason = refusal.action, refusal.reason
    name = str(type(action).__struct_config__.tag)
    return Refused(name, getattr(action, "job_id", ""), str(type(reason).__struct_config__.tag), reason.detail())


def dump(decision: Decision) -> bytes:
    """A decision as the log keeps it."""
    return _encode(decision)


def load(body: bytes) -> Decision:
    """A decision from the log."""
    return msgspec.msgpack.decode(body, type=Decision)


def history_of(decisions: Sequence[Decision], decision_id: str) -> list[Decision]:
    """The records that a replay of one decision needs: from the last key frame to it."""
    place = next((n for n, decision in enumerate(decisions) if decision.id == decision_id), None)
    if place is None:
        raise LookupError(f"there is no decision {decision_id!r}")
    start = max((n for n in range(place + 1) if decisions[n].keyframe), default=None)
    if start is None:
        raise LookupError(f"the context of decision {decision_id!r} is no longer kept")
    return list(decisions[start : place + 1])


class Replayer:
    """Asks recorded questions again, in a process of its own."""

    def __init__(self, lua: str | None, settings: HostSettings | None = None) -> None:
        self._host = PolicyHost(settings or HostSettings())
        self._host.start()
        if lua is not None:
            self._host.load(lua, "replay")

    def ask(self, history: Sequence[Decision]) -> Answer:
        """The answer to the last question of a history."""
        for decision in history:
            self._host.feed_frame(decision.frame)
        self._host.wait_ready()
        verdict = self._host.ask(history[-1].question)
        if verdict.failure is not None:
            return Answer([], error=None, runtime=f"{verdict.failure}: {verdict.message}")
        return verdict.answer

    def compare(self, history: Sequence[Decision]) -> Difference:
        """What the loaded policy says where the recorded one said something."""
        answer = self.ask(history)
        recorded = history[-1].actions
        failed = answer.runtime if not answer.took_us and not answer.actions and ":" in answer.runtime else ""
        return Difference(answer.actions == recorded and not failed, recorded, answer.actions, failed)

    def stop(self) -> None:
        """End the process."""
        self._host.stop()

    def __enter__(self) -> Replayer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


__all__ = ["Decision", "DecisionLog", "Difference", "Replayer", "encode", "history_of", "load", "record"]
