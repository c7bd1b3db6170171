"""The pull scheduler: work orders wait as jobs and are claimed while there is a slot for them. A thin face of the core.

Order, depth limit, stagger, slots and memory are the core's: this loop only asks for the first work order and does
what the answer says. It never starts two things where the core would start one.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Self

import msgspec

from headgate.core import commands as c
from headgate.core.actions import Reason, Stagger
from headgate.core.bucket import order_key
from headgate.core.errors import HeadgateError, InvalidInput, QueueFull, QuotaExceeded
from headgate.core.events import Failure
from headgate.core.job import JobKind, JobSpec
from headgate.core.notify import Listener, Notifier
from headgate.core.state import State
from headgate.core.states import JobState
from headgate.core.tenants import TenantSpec
from headgate.ports import Clock, Ids
from headgate.worker.work_orders import Engine, Handler, PullConfig, Slot, Slots, Spawn, Stats, WorkOrder

TYPE = "work-order"
TENANT = "work-orders"
"""On whose account work orders wait: its quota is the depth of the queue."""
EVENTS = ("work-claimed", "queue-empty", "backpressure", "stagger-wait")
PATIENCE = 30.0
"""Seconds for which closing waits for handlers that are at work."""
_log = logging.getLogger(__name__)


class PullScheduler:
    """Claims work orders in order, as slots, memory and stagger allow."""

    def __init__(
        self,
        monitor: Slots,
        engine: Engine,
        clock: Clock,
        ids: Ids,
        config: PullConfig | None = None,
        spawn: Spawn | None = None,
    ) -> None:
        self.monitor = monitor
        self.config = (config or PullConfig()).check()
        self._engine = engine
        self._clock = clock
        self._ids = ids
        self._spawn = spawn or _in_a_thread
        self._notifier = Notifier(EVENTS, _log)
        self._lock = threading.RLock()
        self._orders: dict[str, WorkOrder] = {}
        """Work orders that wait, by the id of their job."""
        self._handler: Handler | None = None
        self._running = False
        self._last_claim = 0
        self._busy: dict[str, Slot] = {}
        """Slots in which a handler is at work: they are renewed."""
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._renew_every = engine.read(lambda state: state.settings.lease_ttl) / 3
        self._idle = threading.Condition()
        engine.do(c.SetTenant(TenantSpec(TENANT, max_queued=self.config.max_queue_depth or None)))
        monitor.on("slot-available", self._wake.set)

    # -- life and events ------------------------------------------------------------------------------------------

    def set_execution_handler(self, handler: Handler) -> None:
        """What is called with a claimed work order and its slot; a plain function or a coroutine function.

        It releases the slot when the work is done. If it raises, the slot is released for it; if it returns without a
        word, the slot comes back when its lease runs out, and is reported as leaked.
        """
        self._handler = handler

    def on(self, event: str, listener: Listener) -> None:
        """Listen to `work-claimed`, `queue-empty`, `backpressure` or `stagger-wait`."""
        self._notifier.on(event, listener)

    def off(self, event: str, listener: Listener) -> None:
        """Listen no more."""
        self._notifier.off(event, listener)

    def start(self, *, thread: bool = True) -> None:
        """Look at the queue at once, at every poll, and when a slot comes free. Without a thread, call `poll`."""
        if self._running:
            return
        self._running = True
        if not thread:
            self.poll()
            return
        self._wake.set()
        if self._thread is None or not self._thread.is_alive():  # it may still be renewing slots from before a stop
            self._thread = threading.Thread(target=self._run, name="headgate-pull", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Claim nothing more. Handlers that are at work go on, and their slots stay theirs."""
        self._running = False
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and not self._busy:
            thread.join()

    def close(self, within: float = PATIENCE) -> None:
        """Stop for good: wait so many seconds for handlers at work, then let go of monitor, engine and threads."""
        self.stop()
        with self._idle:
            if not self._idle.wait_for(lambda: not self._busy, within):
                _log.warning("closing while %d work orders are still at work", len(self._busy))
        self._busy.clear()
        self.stop()
        self.monitor.off("slot-available", self._wake.set)
        self.monitor.close()

    def __enter__(self) -> Self:
        """Not started yet: handlers and listeners come first."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        pause = min(self.config.poll_interval_ms, self._renew_every) / 1000
        while self._running or self._busy:
            self._wake.wait(pause)
            self._wake.clear()
            try:
                self.poll()
            except HeadgateError:
                _log.exception("the engine could not be asked; the next poll tries again")

    # -- the queue ------------------------------------------------------------------------------------------------

    def enqueue(self, work_order: WorkOrder) -> bool:
        """Put a work order into the queue; false, and `backpressure` with the depth, if the queue is full."""
        if not isinstance(work_order, WorkOrder):
            raise InvalidInput(f"must be a WorkOrder, not {type(work_order).__name__}", field="work_order")
        work_order.check()
        if work_order.submitted_at is None:
            work_order = msgspec.structs.replace(work_order, submitted_at=self._clock.now())
        rank = work_order.priority if self.config.priority_enabled else 0
        job_id = self._ids.new()
        kind = JobKind(type=TYPE, rank=rank, tenant=TENANT)
        self._orders[job_id] = work_order  # before the engine knows of it: it may be claimed at once
        try:
            self._engine.do(c.Submit((c.NewJob(job_id, JobSpec(kind, work_order.id)),)))
        except BaseException as error:
            self._orders.pop(job_id, None)
            if not isinstance(error, QueueFull | QuotaExceeded):
                raise
            self._notifier.emit("backpressure", error.depth)
            return False
        self._wake.set()
        return True

    def dequeue(self, work_order_id: str) -> WorkOrder | None:
        """Take a work order that waits out of the queue; none if there is none."""
        with self._lock:
            for job_id in self._waiting():
                if self._orders[job_id].id == work_order_id:
                    self._engine.do(c.Cancel(job_id, "taken out of the queue"))
                    return self._orders.pop(job_id)
        return None

    def get_queue_depth(self) -> int:
        """How many work orders wait."""
        return len(self._waiting())

    def get_queued_work_orders(self) -> tuple[WorkOrder, ...]:
        """The work orders that wait, in the order in which they will be claimed."""
        with self._lock:
            return tuple(self._orders[job_id] for job_id in self._waiting())

    def get_stats(self) -> Stats:
        """Depth, whether it runs, the time of the last claim, and the machine's health."""
        return Stats(self.get_queue_depth(), self._running, self._last_claim, self.monitor.get_health_report())

    def _waiting(self) -> list[str]:
        mine = self._orders

        def queued(state: State) -> list[str]:
            jobs = [state.jobs[job_id] for job_id in mine.copy() if job_id in state.jobs]
            return [job.id for job in sorted(jobs, key=order_key) if job.state is JobState.QUEUED]

        return self._engine.read(queued)

    # -- the loop -------------------------------------------------------------------------------------------------

    def poll(self) -> int:
        """One look: renew what is at work, claim what can be claimed; returns how many were claimed."""
        with self._lock:
            for slot in tuple(self._busy.values()):
                if not self.monitor.renew_slot(slot):
                    _log.warning("slot %s was lost while its work order is still at work", slot.id)
                    self._busy.pop(slot.id, None)
            claimed = 0
            while self._running and self._claim_next():
                claimed += 1
            return claimed

    def _claim_next(self) -> bool:
        job_id = self._engine.read(_first)
        if job_id not in self._orders:  # nobody waits, or somebody else's order stands first
            job_id = next(iter(self._waiting()), None)
        if job_id is None:
            self._notifier.emit("queue-empty")
            return False
        if self._handler is None:
            _log.warning("no execution handler is set: nothing is claimed")
            return False
        order = self._orders[job_id]
        slot = self.monitor.claim(job_id, order.id)
        if isinstance(slot, Reason):
            self._refused(order, slot)
            return False
        return self._claimed(job_id, order, slot, self._handler)

    def _refused(self, order: WorkOrder, reason: Reason) -> None:
        if isinstance(reason, Stagger):
            self._notifier.emit("stagger-wait", order.id, reason.wait)
        else:
            _log.debug("work order %s waits: %s", order.id, reason.detail())

    def _claimed(self, job_id: str, order: WorkOrder, slot: Slot, handler: Handler) -> bool:
        self._last_claim = self._clock.now()
        try:
            if order.state_machine is not None:
                order.state_machine.claim(slot.id)
        except Exception:  # noqa: BLE001 - whatever the state machine raises is its refusal
            _log.exception("work order %s refused to be claimed; it stays at the head of the queue", order.id)
            self.monitor.give_back(slot)
            return False
        del self._orders[job_id]
        self._busy[slot.id] = slot
        self._notifier.emit("work-claimed", order, slot)
        try:
            self._spawn(lambda: self._execute(order, slot, handler))
        except RuntimeError:  # no further thread is to be had
            _log.exception("work order %s could not be started; it is back at the head of the queue", order.id)
            self._orders[job_id] = order
            self._done_with(slot)
            self.monitor.give_back(slot)
            return False
        return True

    def _execute(self, order: WorkOrder, slot: Slot, handler: Handler) -> None:
        try:
            outcome = handler(order, slot)
            if inspect.isawaitable(outcome):
                asyncio.run(_finish(outcome))
        except Exception as error:  # noqa: BLE001 - whatever the handler raises is the end of its work order
            _log.exception("the handler of work order %s failed", order.id)
            self._fail(slot, Failure(type(error).__name__, str(error)[:1_000]))
        finally:
            self._done_with(slot)

    def _fail(self, slot: Slot, failure: Failure) -> None:
        try:
            self.monitor.fail_slot(slot, failure)
        except HeadgateError:
            _log.exception("slot %s could not be given back; it comes back when its lease runs out", slot.id)

    def _done_with(self, slot: Slot) -> None:
        self._busy.pop(slot.id, None)
        self._wake.set()
        with self._idle:
            self._idle.notify_all()


def _first(state: State) -> str | None:
    """The work order that the core would start first."""
    heads = [head for bucket in state.ready.buckets() if bucket.shape.type == TYPE and (head := bucket.head())]
    return min(heads, key=order_key).id if heads else None


async def _finish(outcome: Awaitable[None]) -> None:
    await outcome


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="headgate-work-order", daemon=True).start()
