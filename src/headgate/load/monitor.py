"""The resource monitor: slots with handles, memory pressure, health. A thin face of the core.

A slot is a slot of one worker, and whoever holds it holds a lease: the core counts slots, refuses when there are none,
and takes a slot back when its holder falls silent. Memory reaches the core as the busy rating of the worker's pool.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from headgate.core import commands as c
from headgate.core.actions import AnyReason, Dispatch
from headgate.core.cluster import PoolReport, WorkerSpec
from headgate.core.errors import HeadgateError, NotFound, Refused, StaleLease
from headgate.core.events import Failure
from headgate.core.job import JobKind, JobSpec
from headgate.core.job_input import LIMITS, text
from headgate.core.notify import Listener, Notifier
from headgate.core.state import State
from headgate.load.health import HealthReport, MemoryPressure, MonitorConfig, health_report
from headgate.load.loop import Repeating
from headgate.load.probe import LIMIT, Probe, Probes, Reading
from headgate.ports import Clock, Ids

R = TypeVar("R")
POOL = "slots"
WORKER = "slots"
EVENTS = ("slot-available", "memory-pressure", "health-changed", "slot-leaked")
_log = logging.getLogger(__name__)


class Engine(Protocol):
    """What the monitor asks of an engine."""

    def do(self, command: c.Command[R]) -> R:
        """Carry out a command."""
        ...

    def read(self, question: Callable[[State], R]) -> R:
        """Ask the state something."""
        ...


class SlotHandle(msgspec.Struct, frozen=True):
    """A slot in somebody's hands. `id` is that of the lease, `acquired_at` in milliseconds."""

    id: str
    acquired_at: int
    work_order_id: str


class ResourceMonitor:
    """Watches the machine and hands out slots. Safe to use from several threads."""

    def __init__(
        self,
        engine: Engine,
        probe: Probe,
        clock: Clock,
        ids: Ids,
        config: MonitorConfig | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.config = (config or MonitorConfig()).check()
        self.engine = engine
        self.degraded: tuple[str, ...] = ()
        """Why the machine cannot be measured, while it cannot."""
        self.leaks: list[SlotHandle] = []
        """The slots that came back because their lease ran out, the latest last; a hundred are kept."""
        self._probe = Probes([probe], min(LIMIT, self.config.poll_interval_ms))
        self._clock = clock
        self._ids = ids
        self._notifier = Notifier(EVENTS, _log)
        self._lock = threading.RLock()
        self._tokens: dict[str, tuple[SlotHandle, int]] = {}
        self._last: HealthReport | None = None
        self._pressure: MemoryPressure = "none"
        self._repeating = Repeating("headgate-monitor", self.config.poll_interval_ms)
        self._on_close = on_close
        engine.do(c.RegisterWorker(WorkerSpec(WORKER, POOL, slots=self.config.max_concurrent_slots)))

    # -- life and events ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Look at once, and then at every poll."""
        self._repeating.start(self._poll)

    def stop(self) -> None:
        """Look no more; slots that are out stay out until they are released or their lease runs out."""
        self._repeating.stop()

    def close(self) -> None:
        """Stop for good and let go of the probe's thread, and of the engine where it is the monitor's own."""
        self.stop()
        self._probe.close()
        closing, self._on_close = self._on_close, None
        if closing is not None:
            closing()

    def on(self, event: str, listener: Listener) -> None:
        """Listen to `slot-available`, `memory-pressure`, `health-changed` or `slot-leaked`."""
        self._notifier.on(event, listener)

    def off(self, event: str, listener: Listener) -> None:
        """Listen no more."""
        self._notifier.off(event, listener)

    def _poll(self) -> None:
        try:
            self.check_resources()
        except HeadgateError:
            _log.exception("the engine could not be asked; the next poll tries again")

    def check_resources(self) -> HealthReport:
        """Look at the machine and the slots; tell what has changed."""
        with self._lock:
            report = self._look()
            previous, self._pressure = self._pressure, report.memory_pressure
            changed, self._last = report != self._last, report
            leaks = self._find_leaks()
        if previous != report.memory_pressure:
            _log.warning("memory pressure changed from %s to %s", previous, report.memory_pressure)
            self._notifier.emit("memory-pressure", report.memory_pressure, report)
        if changed:
            self._notifier.emit("health-changed", report)
        for handle in leaks:
            _log.warning("slot %s of work order %s was never released", handle.id, handle.work_order_id)
            self._notifier.emit("slot-leaked", handle)
            self._notifier.emit("slot-available")
        return report

    # -- slots ----------------------------------------------------------------------------------------------------

    def acquire_slot(self, work_order_id: str) -> SlotHandle | None:
        """A slot for a work order; none under critical memory pressure, without a free slot, or with too little memory.

        Whoever holds it longer than the lease lasts calls `renew_slot` in time.
        """
        job_id = self._ids.new()
        text(work_order_id, "work_order_id", LIMITS)
        try:
            self.engine.do(c.Submit((c.NewJob(job_id, JobSpec(JobKind(type="slot"), work_order_id)),)))
        except Refused as full:
            _log.info("no slot for work order %s: %s", work_order_id, full)
            return None
        slot = self._claim_or_cancel(job_id, work_order_id)
        if isinstance(slot, SlotHandle):
            return slot
        _log.info("no slot for work order %s: %s", work_order_id, slot.detail())
        return None

    def _claim_or_cancel(self, job_id: str, work_order_id: str) -> SlotHandle | AnyReason:
        """What gets no slot at once does not stay behind in the queue, whatever went wrong."""
        slot: SlotHandle | AnyReason | None = None
        try:
            slot = self.claim(job_id, work_order_id)
            return slot
        finally:
            if not isinstance(slot, SlotHandle):
                self.engine.do(c.Cancel(job_id, "no slot"))

    def claim(self, job_id: str, work_order_id: str) -> SlotHandle | AnyReason:
        """A slot for a job that waits in the engine, or the core's reason why there is none now."""
        with self._lock:
            self._look()
            planned = self.engine.do(c.Schedule((Dispatch(job_id, WORKER),)))
            if planned.refused:
                return planned.refused[0].reason
            lease_id = planned.granted[0]
            token = self.engine.read(lambda state: state.leases[lease_id].token)
            self.engine.do(c.Start(lease_id, token))
            handle = SlotHandle(lease_id, self._clock.now(), work_order_id)
            self._tokens[lease_id] = (handle, token)
            return handle

    def release_slot(self, handle: SlotHandle) -> None:
        """The work is done and the slot free; a handle that is unknown warns and changes nothing."""
        if self._settle(handle, lambda token: c.Complete(handle.id, token)):
            self._notifier.emit("slot-available")

    def fail_slot(self, handle: SlotHandle, failure: Failure) -> None:
        """The work failed; the slot is free."""
        if self._settle(handle, lambda token: c.Fail(handle.id, token, failure)):
            self._notifier.emit("slot-available")

    def give_back(self, handle: SlotHandle) -> None:
        """The work never began: the slot is free and the job goes back to where it stood in the queue."""
        self._settle(handle, lambda token: c.Release(handle.id, token))

    def renew_slot(self, handle: SlotHandle) -> bool:
        """The holder is alive; false if the slot is no longer its own."""
        known = self._tokens.get(handle.id)
        if known is None:
            return False
        try:
            self.engine.do(c.Heartbeat(handle.id, known[1]))
        except StaleLease:
            return False
        return True

    def _settle(self, handle: SlotHandle, word: Callable[[int], c.Command[None]]) -> bool:
        with self._lock:
            known = self._tokens.pop(handle.id, None)
            if known is None:
                _log.warning("slot %s is not known: nothing was released", handle.id)
                return False
            try:
                self.engine.do(word(known[1]))
            except StaleLease:
                _log.warning("slot %s had come back already: its lease had run out", handle.id)
                return False
            return True

    def _find_leaks(self) -> list[SlotHandle]:
        """Handles whose lease is over although nobody released them."""
        live = self.engine.read(lambda state: set(state.leases))
        leaks = [handle for handle, _ in self._tokens.values() if handle.id not in live]
        for handle in leaks:
            del self._tokens[handle.id]
        self.leaks = (self.leaks + leaks)[-100:]
        return leaks

    # -- health ---------------------------------------------------------------------------------------------------

    def get_health_report(self) -> HealthReport:
        """Memory, CPU and slots as they are now."""
        return self._report(self._probe.read())

    def get_available_slots(self) -> int:
        """Slots that nobody holds."""
        return max(0, self.config.max_concurrent_slots - self._active())

    def is_healthy(self) -> bool:
        """Whether new work would find a slot and memory that is not critically short."""
        return self.get_health_report().healthy

    def _active(self) -> int:
        def held(state: State) -> int:
            worker = state.workers.get(WORKER)
            if worker is None:
                raise NotFound("the monitor's worker was removed from the engine")
            return len(worker.leases)

        return self.engine.read(held)

    def _look(self) -> HealthReport:
        """Measure, and tell the core how busy the pool is: shut, or open."""
        reading = self._probe.read()
        report = self._report(reading)
        shut = report.memory_pressure == "critical" or report.memory_available_mb < self.config.memory_per_slot_mb
        why = (*self.degraded, _memory_words(report, self.config)) if shut else ()
        self.engine.do(
            c.ReportPool(PoolReport(POOL, busy=10.0 if shut else 0.0, workers=(WORKER,), reasons=why)),
        )
        return report

    def _report(self, reading: Reading) -> HealthReport:
        self.degraded = tuple(dict.fromkeys(reading.reasons.values()))
        return health_report(reading, self._active(), self.config)


def _memory_words(report: HealthReport, config: MonitorConfig) -> str:
    if report.memory_pressure == "critical":
        return "memory pressure is critical"
    return f"{report.memory_available_mb} MB of memory are available, a slot needs {config.memory_per_slot_mb} MB"
