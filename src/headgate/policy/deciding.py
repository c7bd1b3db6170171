"""The policy engine: asks the active policy, falls back, trips, lets a shadow watch, and records every decision.

It stands behind the same interface as the built-in ordering. The user's code runs in a child process; whatever it
does, the cycle gets an answer in bounded time, and the core checks that answer again.
"""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import msgspec

from headgate.core import actions as core
from headgate.core.commands import Command, Scheduled
from headgate.core.events import DocumentSet, Event
from headgate.core.ordering import FirstFit, Note
from headgate.core.state import State
from headgate.policy import answers
from headgate.policy.decisions import KIND, DecisionLog, ShadowSaid, dump, record
from headgate.policy.deltas import Delta, MetricsSet, Question, Reset
from headgate.policy.host import PolicyHost
from headgate.policy.library import POINTER, VERSIONS, Tripped, Version, read_pointer, read_version, trip
from headgate.policy.mirroring import Mirroring
from headgate.policy.runtime import PolicyRefused
from headgate.policy.shadowing import alike
from headgate.policy.verdict import HostSettings, HostStatus, Verdict

Mode = Literal["home", "lab", "platform"]


class PolicySettings(msgspec.Struct, frozen=True):
    """How policies are run and watched."""

    host: HostSettings = HostSettings()
    trip_after: int = 5
    """So many failed decisions in a row take a policy out."""
    starve_after: int = 60_000
    """Milliseconds a job may be runnable and passed over before the policy that does so is taken out."""
    longest_hold: int = 24 * 3_600_000
    """Milliseconds for which a policy may hold jobs back by saying so (`wait` with `retry_after_ms`)."""
    max_answers: int = 256
    budget_ms: int = 20
    record: bool = True
    zone: str = "UTC"
    """The zone of `context.time`."""

    @property
    def mode(self) -> Mode:
        """home and lab take user policies, platform does not."""
        return self.host.mode


class PolicyStatus(msgspec.Struct, frozen=True):
    """One look at who decides."""

    active: str | None
    shadow: str | None
    tripped: Tripped | None
    deciding: str
    decisions: int
    by_platform: int
    failures: dict[str, int]
    refusals: int
    shadow_agreed: int
    shadow_asked: int
    problem: str
    host: HostStatus | None
    metrics: dict[str, float]


class _Asking(msgspec.Struct):
    """A question on its way."""

    id: str
    question: Question
    frame: bytes
    key: bool
    key_id: str
    quiet: bool
    """Nothing but time has passed since the question before."""


class _Asked(msgspec.Struct):
    """A decision whose consequences are not known yet."""

    asking: _Asking
    verdict: Verdict
    shadow: ShadowSaid | None
    attempted: str


class PolicyEngine:
    """Decides cycles by policy."""

    arm = ""
    """The arm of an experiment that it decides for."""

    def __init__(self, settings: PolicySettings | None = None) -> None:
        self.settings = settings or PolicySettings()
        self.decisions = self.by_platform = self.refusals = 0
        self.shadow_asked = self.shadow_agreed = 0
        self.failures: Counter[str] = Counter()
        self.metrics: dict[str, float] = {}
        self.problem = ""
        self._mirroring = Mirroring()
        self._log = DecisionLog()
        self._native = FirstFit()
        self._native.one_by_one = True  # it is asked only whether anything could run
        self._zone = ZoneInfo(self.settings.zone) if self.settings.zone != "UTC" else UTC
        self._lock = threading.RLock()
        self._state: State | None = None
        self._now = 0
        self._host: PolicyHost | None = None
        self._shadow: PolicyHost | None = None
        self._deciding: Version | None = None
        self._watching: Version | None = None
        self._pointer_moved = True
        self._fresh = True
        self._asked: _Asked | None = None
        self._in_a_row = 0
        self._starving_since: int | None = None
        self._waits_as: list[Any] | None = None
        """The last answer that was kept, if it was to wait."""
        self._staged: dict[str, PolicyHost] = {}

    # -- life ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End every process."""
        with self._lock:
            for host in (self._host, self._shadow, *self._staged.values()):
                if host is not None:
                    host.stop()
            self._host = self._shadow = None
            self._staged.clear()

    def stage(self, version: Version) -> None:
        """Start a version in processes of its own, so that the swap between two cycles costs nothing.

        Raises `PolicyRefused` if it does not load; what decides now is not touched.
        """
        host = self._start(version)
        with self._lock:
            before = self._staged.pop(version.id, None)
            self._staged[version.id] = host
        if before is not None:
            before.stop()

    def _start(self, version: Version | None) -> PolicyHost:
        host = PolicyHost(self.settings.host, self._everything)
        host.start()
        if version is not None:
            try:
                host.load(version.lua, version.id)
            except PolicyRefused:
                host.stop()
                raise
        return host

    def _everything(self) -> list[Delta]:
        """For a process that has to begin anew: it knows more than the others until all are told everything."""
        with self._lock:
            self._fresh = True
            return [] if self._state is None else self._mirroring.snapshot(self._state, self._now)

    # -- what the engine tells ----------------------------------------------------------------------------------

    def observe(self, events: list[Event], state: State) -> None:
        """See events as they happen."""
        with self._lock:
            if state is not self._state:  # opened, or rebuilt after a failed commit
                self._state, self._fresh, self._pointer_moved = state, True, True
            self._mirroring.observe(events, state)
            if any(type(event) is DocumentSet and event.kind == POINTER for event in events):
                self._pointer_moved = True

    def propose(self, state: State, now: int) -> list[core.Action]:
        """The next actions, as the active policy answers; by the platform policy where it does not."""
        with self._lock:
            host, asking = self._prepare(state, now)
            verdict = host.ask(asking.question)
            shadow = None if self._shadow is None else self._shadow.ask(asking.question)
            return self._heard(asking, verdict, shadow)

    async def apropose(self, state: State, now: int) -> list[core.Action]:
        """The same without holding up the loop: whatever the policy does, heartbeats are answered meanwhile."""
        with self._lock:
            host, asking = self._prepare(state, now)
            watching = self._shadow
        verdict = await host.aask(asking.question)
        shadow = None if watching is None else await watching.aask(asking.question)
        with self._lock:
            return self._heard(asking, verdict, shadow)

    def _prepare(self, state: State, now: int) -> tuple[PolicyHost, _Asking]:
        """Tell the mirrors what is new, and put the question."""
        self._state, self._now = state, now
        self._follow_pointer(state)
        host = self._host
        if host is None:
            host = self._host = self._start(None)
            self._fresh = True
        key = self._fresh or self._log.wants_key()
        told = [Reset(), *self._mirroring.everything(state, now)] if key else self._mirroring.news(state, now)
        self._fresh = False
        host.feed(told)
        if self._shadow is not None:
            self._shadow.feed(told)
        frame = self._log.told(told, key=key, carry=self.settings.record)
        decision_id = self._log.next_id(now)
        local = datetime.fromtimestamp(now / 1000, self._zone)
        number = int(decision_id.rpartition("-")[2])
        limits = (self.settings.max_answers, self.settings.budget_ms)
        question = Question(now, number, *limits, local.hour, local.weekday())
        quiet = not key and all(isinstance(delta, MetricsSet) for delta in told)
        return host, _Asking(decision_id, question, frame, self._log.holds_key, self._log.key_id, quiet)

    def _heard(self, asking: _Asking, verdict: Verdict, shadow: Verdict | None) -> list[core.Action]:
        self._count(verdict)
        said = None if shadow is None else self._compare(verdict, shadow)
        attempted = self._deciding.id if verdict.failure is not None and self._deciding is not None else ""
        self._asked = _Asked(asking, verdict, said, attempted)
        return [to_core(action) for action in verdict.actions]

    def _count(self, verdict: Verdict) -> None:
        self.decisions += 1
        self.by_platform += verdict.decided_by == "platform"
        self.metrics.update(verdict.answer.metrics)
        if verdict.failure is None:
            self._in_a_row = 0
        else:
            self.failures[verdict.failure] += 1
            self._in_a_row += 1

    def _compare(self, verdict: Verdict, shadow: Verdict) -> ShadowSaid:
        agrees = shadow.failure is None and alike(shadow.answer.actions, verdict.answer.actions)
        self.shadow_asked += 1
        self.shadow_agreed += agrees
        watching = self._watching.id if self._watching is not None else ""
        return ShadowSaid(watching, shadow.answer.actions, agrees, shadow.failure or "", shadow.answer.took_us)

    # -- what became of it --------------------------------------------------------------------------------------

    def disposed(self, scheduled: Scheduled, now: int) -> list[Note | Command[Any]]:
        """Record the decision; take the policy out if it fails again and again or starves somebody."""
        with self._lock:
            asked, self._asked = self._asked, None
            if asked is None:
                return []
            self.refusals += len(scheduled.refused)
            wishes: list[Note | Command[Any]] = []
            tripped = self._trips(asked, scheduled, now)
            if tripped is not None or (self.settings.record and not self._says_the_same(asked)):
                kept = record(
                    asked.asking.id,
                    now,
                    asked.asking.question,
                    asked.asking.frame,
                    asked.verdict,
                    scheduled,
                    key=asked.asking.key,
                    shadow=asked.shadow,
                    attempted=asked.attempted,
                    key_id=asked.asking.key_id,
                    arm=self.arm,
                )
                wishes.append(Note(KIND, asked.asking.id, dump(kept)))
                self._log.recorded()
            if tripped is not None:
                wishes += self._take_out(tripped)
            return wishes

    def _take_out(self, tripped: Tripped) -> list[Command[Any]]:
        return [trip(self._pointer_body(), tripped)]

    def _says_the_same(self, asked: _Asked) -> bool:
        """Whether a policy goes on waiting for the reason it gave: once is enough for the log, not every second."""
        verdict = asked.verdict
        waits = verdict.failure is None and all(isinstance(action, answers.Wait) for action in verdict.actions)
        said = verdict.answer.actions if waits and asked.shadow is None else None
        same = asked.asking.quiet and said is not None and said == self._waits_as
        self._waits_as = said
        return same

    def _pointer_body(self) -> bytes | None:
        return None if self._state is None else self._state.documents.get((POINTER, "pointer"))

    def _trips(self, asked: _Asked, scheduled: Scheduled, now: int) -> Tripped | None:
        version = self._deciding
        if version is None:
            return None
        verdict = asked.verdict
        if self._in_a_row >= self.settings.trip_after:
            kind, text = f"failed ({verdict.failure})", verdict.message
        elif self._starves(asked, scheduled, now):
            kind, text = "starvation", f"a job could run and was passed over for {self.settings.starve_after} ms"
        else:
            return None
        self._in_a_row, self._starving_since = 0, None
        return Tripped(now, version.id, kind, text, verdict.traceback, asked.asking.id)

    def _starves(self, asked: _Asked, scheduled: Scheduled, now: int) -> bool:
        """Whether a job that fits has been passed over too long by a policy that gives no reason to wait."""
        verdict, state = asked.verdict, self._state
        held = any(isinstance(a, answers.Wait) and (a.retry_after_ms or 0) > 0 for a in verdict.actions)
        if state is None or verdict.failure is not None or scheduled.granted or not self._native.propose(state, now):
            self._starving_since = None
            return False
        self._starving_since = now if self._starving_since is None else self._starving_since
        limit = self.settings.longest_hold if held else self.settings.starve_after
        return now - self._starving_since >= limit

    # -- the pointer --------------------------------------------------------------------------------------------

    def _follow_pointer(self, state: State) -> None:
        """Between two cycles: put in charge whoever the pointer names."""
        if not self._pointer_moved:
            return
        self._pointer_moved = False
        pointer = read_pointer(state.documents.get((POINTER, "pointer")))
        deciding = self._version(state, pointer.deciding)
        if (deciding and deciding.id) != (self._deciding and self._deciding.id) or self._host is None:
            self._put_in_charge(deciding)
        watching = self._version(state, pointer.shadow)
        if (watching and watching.id) != (self._watching and self._watching.id):
            self._let_watch(watching)

    def _version(self, state: State, version_id: str | None) -> Version | None:
        body = None if version_id is None else state.documents.get((VERSIONS, version_id))
        if version_id is not None and body is None:
            self.problem = f"policy version {version_id} is not in the library"
        if self.settings.mode == "platform" and body is not None:
            self.problem = "user policies are not allowed in platform mode"
            return None
        return None if body is None else read_version(body)

    def _put_in_charge(self, version: Version | None) -> None:
        host = self._take_staged(version)
        if host is None and version is not None:
            version = None
            host = self._start(None)
        elif host is None:
            host = self._start(None)
        if self._host is not None:
            self._host.stop()
        self._host, self._deciding = host, version
        self._fresh, self._in_a_row, self._starving_since = True, 0, None
        self._log.restart()

    def _let_watch(self, version: Version | None) -> None:
        if self._shadow is not None:
            self._shadow.stop()
        self._shadow = self._take_staged(version)
        self._watching = version if self._shadow is not None else None
        self._fresh = True

    def _take_staged(self, version: Version | None) -> PolicyHost | None:
        if version is None:
            return None
        staged = self._staged.pop(version.id, None)
        if staged is not None:
            return staged
        try:
            return self._start(version)
        except PolicyRefused as refused:
            self.problem = f"{version.id} does not load: {refused}"
            return None

    def status(self) -> PolicyStatus:
        """One look at who decides."""
        with self._lock:
            pointer = read_pointer(self._pointer_body())
            return PolicyStatus(
                pointer.active,
                pointer.shadow,
                pointer.tripped,
                self._deciding.id if self._deciding is not None else "platform",
                self.decisions,
                self.by_platform,
                dict(self.failures),
                self.refusals,
                self.shadow_agreed,
                self.shadow_asked,
                self.problem,
                self._host.status() if self._host is not None else None,
                dict(self.metrics),
            )


def to_core(action: answers.Action) -> core.Action:
    """What a policy said, in the core's words."""
    reason = (action.reason or "")[:1_000]
    match action:
        case answers.Dispatch():
            return core.Dispatch(action.job_id, action.worker_id, reason)
        case answers.Wait():
            after = action.retry_after_ms
            return core.Wait(reason, None if after is None else int(min(after, 2**53)))
        case answers.Evict():
            return core.Evict(action.evict_worker_id, reason)
        case answers.StartWorker():
            start = action.start_worker
            gpu = None if start.gpu_id is None else str(start.gpu_id)
            return core.StartWorker(start.model_ref, start.pool_id, gpu, reason)
        case answers.Preempt():
            return core.Preempt(action.job_id, tuple(action.victims), reason)
