"""Decisions: what was asked, what was answered, what became of it; enough to ask again exactly.

A record holds the very bytes that the policy was told since the record before. Every so often a record is a key
frame that holds the whole state, so a decision is replayed from the last key frame before it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, Protocol, Self

import msgspec

from headgate.core.commands import Scheduled
from headgate.policy.deltas import Delta, MetricsSet, Question
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
    took_us: int = 0


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
    key_id: str = ""
    """The decision whose frame holds the whole state that this one's context begins with."""
    arm: str = ""
    """The experiment and its arm, as `id/a` or `id/b`; empty where no experiment runs."""


class Glance(msgspec.Struct, frozen=True, array_like=True):
    """A decision with all that is large left encoded: a log has many of them."""

    id: str
    number: int
    at: int
    decided_by: str
    version: str
    runtime: msgspec.Raw
    question: msgspec.Raw
    keyframe: msgspec.Raw
    frame: msgspec.Raw
    actions: list[dict[str, Any]]
    trace: msgspec.Raw
    logs: msgspec.Raw
    failure: str
    message: msgspec.Raw
    traceback: msgspec.Raw
    refused: msgspec.Raw
    took_us: int
    waited_us: int
    shadow: ShadowSaid | None = None
    attempted: str = ""
    key_id: str = ""
    arm: str = ""


glance = msgspec.msgpack.Decoder(Glance).decode

_DELTA_TYPES: Any = functools.reduce(operator.or_, Delta.__subclasses__())
_deltas = msgspec.msgpack.Decoder(list.__class_getitem__(_DELTA_TYPES))
_encode_deltas = msgspec.msgpack.Encoder(order="deterministic").encode


def pack(deltas: Sequence[Delta]) -> bytes:
    """What a policy was told, as a record keeps it."""
    return _encode_deltas(deltas)


def unpack(frame: bytes) -> list[Delta]:
    """What a policy was told, as it can be told again."""
    told: list[Delta] = _deltas.decode(frame)
    return told


def joined(before: list[Delta], told: list[Delta]) -> list[Delta]:
    """What was told one after the other; metrics that only follow the clock take no more room than once."""
    last = before[-1] if before else None
    if isinstance(last, MetricsSet) and len(told) == 1 and isinstance(told[0], MetricsSet):
        return [*before[:-1], MetricsSet({**last.values, **told[0].values})]
    return [*before, *told]


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
        self.holds_key = False
        """Whether the next record begins with the whole state."""
        self._unrecorded: list[Delta] = []
        self.key_id = ""

    def wants_key(self) -> bool:
        """Whether the next record should hold the whole state: replaying must not cost much more than that."""
        return self._key_size == 0 or self._since_key > 2 * self._key_size + (1 << 16)

    def restart(self) -> None:
        """The mirror begins anew: so do the records."""
        self._key_size = 0

    def told(self, deltas: list[Delta], *, key: bool, carry: bool = True) -> bytes:
        """The frame of the next record, and what a replay would have to read is counted.

        Not every question is recorded; what was told with one that is not goes into the frame of the next that is.
        """
        self._unrecorded = joined([] if key or not carry else self._unrecorded, deltas)
        frame = pack(self._unrecorded)
        self._key_size = max(1, len(frame)) if key else self._key_size
        self._since_key = 0 if key else self._since_key + len(frame)
        self.holds_key = self.holds_key or key
        return frame

    def recorded(self) -> None:
        """The last frame is in the log."""
        self._unrecorded, self.holds_key = [], False

    def next_id(self, now: int) -> str:
        """The name of the next decision: it sorts by time."""
        self._number += 1
        decision_id = f"{now:013d}-{self._number:06d}"
        if self.holds_key:
            self.key_id = decision_id
        return decision_id


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
    key_id: str = "",
    arm: str = "",
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
        key_id,
        arm,
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
    wanted = next((decision for decision in decisions if decision.id == decision_id), None)
    if wanted is None:
        raise LookupError(f"there is no decision {decision_id!r}")
    # The arms of an experiment are told apart, each from key frames of its own.
    decisions = [decision for decision in decisions if decision.arm == wanted.arm]
    place = decisions.index(wanted)
    start = max((n for n in range(place + 1) if decisions[n].keyframe), default=None)
    if start is None:
        raise LookupError(f"the context of decision {decision_id!r} is no longer kept")
    return list(decisions[start : place + 1])


class Read(Protocol):
    """Reads bodies of a log, oldest first, from `since` to before `until`."""

    def __call__(self, kind: str, key: str | None = None, since: int = 0, until: int | None = None) -> list[bytes]:
        """Read."""
        ...


def read_history(read: Read, decision_id: str) -> list[Decision]:
    """The same, reading no more of the log than from that key frame on."""
    found = [load(body) for body in read(KIND, decision_id)]
    if not found:
        raise LookupError(f"there is no decision {decision_id!r}")
    last = found[-1]
    since = _time_of(last.key_id)  # a record from before key frames had names: from the beginning
    return history_of([load(body) for body in read(KIND, None, since, last.at + 1)], decision_id)


def _time_of(decision_id: str) -> int:
    at = decision_id.partition("-")[0]
    return int(at) if at else 0


_PATIENCE = 5_000
"""Milliseconds for an answer. Nobody waits for a replay: what it says must not depend on how busy the machine is."""


FOREVER_MS = 1 << 40


def timeless(decision: Decision) -> Question:
    """The question once more, for somebody who has time: what a budget cut short then gets as many answers now."""
    asked = decision.question
    if decision.took_us >= asked.budget_ms * 1_000 and decision.actions:
        asked = msgspec.structs.replace(asked, max_answers=len(decision.actions))
    return msgspec.structs.replace(asked, budget_ms=FOREVER_MS)


class Replayer:
    """Asks recorded questions again, in a process of its own. Without a policy of its own, the platform policy."""

    def __init__(self, lua: str | None, settings: HostSettings | None = None) -> None:
        patient = msgspec.structs.replace(settings or HostSettings(), limit_ms=_PATIENCE, platform_limit_ms=_PATIENCE)
        self._host = PolicyHost(patient)
        self._host.start()
        if lua is not None:
            self._host.load(lua, "replay")

    def ask(self, history: Sequence[Decision]) -> Verdict:
        """The verdict on the last question of a history."""
        for decision in history:
            self._host.feed(unpack(decision.frame))
        return self.ask_again(timeless(history[-1]))

    def ask_on(self, deltas: Sequence[Delta], question: Question) -> Verdict:
        """The verdict on any state that can be told."""
        self._host.feed(deltas)
        return self.ask_again(question)

    def follow(self, decision: Decision) -> Verdict | None:
        """The verdict on a decision whose predecessor was followed just before.

        None where the platform policy had to stand in: that depended on the machine, not on the context.
        """
        self._host.feed(unpack(decision.frame))
        return None if decision.failure else self.ask_again(timeless(decision))

    def ask_again(self, question: Question) -> Verdict:
        """Ask on what has been told so far."""
        self._host.wait_ready()
        return self._host.ask(question)

    def compare(self, history: Sequence[Decision]) -> Difference:
        """What the loaded policy says where the recorded one said something."""
        verdict, recorded = self.ask(history), history[-1].actions
        replayed = verdict.answer.actions
        same = verdict.failure is None and replayed == recorded
        return Difference(same, recorded, replayed, verdict.failure or "", verdict.message)

    def stop(self) -> None:
        """End the process."""
        self._host.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
