"""The pull scheduler: the four behaviours of the source document, stagger, memory pressure, failed claims."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from headgate.bootstrap.load import pull_scheduler, resource_monitor
from headgate.core.errors import InvalidInput
from headgate.core.verify import verify
from headgate.engine.errors import EngineStopped
from headgate.load import MonitorConfig
from headgate.testing import SeededIds
from headgate.worker import PullConfig, PullScheduler, WorkOrder
from tests.load.world import Make, worlds


@pytest.fixture
def make_world() -> Iterator[Make]:
    yield from worlds()


def idle(*_: object) -> None:
    """A handler that returns at once and keeps its slot."""


def claimed(world: Any) -> list[str]:
    return [order.id for order, _ in world.named("work-claimed")]


def test_the_defaults_are_those_of_the_source_document() -> None:
    assert PullConfig() == PullConfig(1_000, 5_000, False, 0)


# -- the four behaviours ------------------------------------------------------------------------------------------


def test_work_is_claimed_when_a_slot_is_free(make_world: Make) -> None:
    world = make_world()
    world.scheduler.set_execution_handler(idle)
    world.scheduler.start(thread=False)
    world.scheduler.enqueue(WorkOrder("wo-1"))
    world.scheduler.poll()
    assert claimed(world) == ["wo-1"]


def test_four_orders_on_two_slots_run_two_and_two(make_world: Make) -> None:
    world = make_world(slots=2)
    started: list[str] = []

    def handler(order: WorkOrder, slot: Any) -> None:
        started.append(order.id)
        world.monitor.release_slot(slot)

    world.scheduler.set_execution_handler(handler)
    world.scheduler.start(thread=False)
    for number in range(1, 5):
        world.scheduler.enqueue(WorkOrder(f"wo-{number}"))
    world.scheduler.poll()
    world.scheduler.poll()
    assert claimed(world) == ["wo-1", "wo-2"]
    assert world.scheduler.get_queue_depth() == 2
    world.run_spawned()
    world.scheduler.poll()
    assert claimed(world) == ["wo-1", "wo-2", "wo-3", "wo-4"]
    world.run_spawned()
    assert started == ["wo-1", "wo-2", "wo-3", "wo-4"]
    verify(world.engine.writer.state)


def test_urgent_work_goes_first_when_priorities_are_enabled(make_world: Make) -> None:
    world = make_world(priority_enabled=True)
    world.scheduler.set_execution_handler(lambda _, slot: world.monitor.release_slot(slot))
    world.scheduler.enqueue(WorkOrder("low", priority=1))
    world.scheduler.enqueue(WorkOrder("high", priority=10))
    world.scheduler.enqueue(WorkOrder("medium", priority=5))
    assert [order.id for order in world.scheduler.get_queued_work_orders()] == ["high", "medium", "low"]
    world.scheduler.start(thread=False)
    world.run_spawned()
    world.scheduler.poll()
    assert claimed(world) == ["high", "medium", "low"]


def test_a_full_queue_returns_false_and_tells_the_depth(make_world: Make) -> None:
    world = make_world(max_queue_depth=2)
    assert world.scheduler.enqueue(WorkOrder("wo-1"))
    assert world.scheduler.enqueue(WorkOrder("wo-2"))
    assert not world.scheduler.enqueue(WorkOrder("wo-3"))
    assert world.named("backpressure") == [(2,)]
    assert world.scheduler.get_queue_depth() == 2


# -- order and queue ----------------------------------------------------------------------------------------------


def test_priorities_do_not_count_unless_enabled(make_world: Make) -> None:
    world = make_world()
    for name, priority in (("low", 1), ("high", 10)):
        world.scheduler.enqueue(WorkOrder(name, priority=priority))
    assert [order.id for order in world.scheduler.get_queued_work_orders()] == ["low", "high"]


def test_a_work_order_can_be_taken_out_of_the_queue(make_world: Make) -> None:
    world = make_world()
    for number in range(3):
        world.scheduler.enqueue(WorkOrder(f"wo-{number}", data=number))
    taken = world.scheduler.dequeue("wo-1")
    assert taken is not None
    assert taken.data == 1
    assert world.scheduler.dequeue("wo-1") is None
    assert world.scheduler.dequeue("nobody") is None
    assert [order.id for order in world.scheduler.get_queued_work_orders()] == ["wo-0", "wo-2"]


def test_a_work_order_that_was_claimed_can_no_longer_be_taken_out(make_world: Make) -> None:
    world = make_world()
    world.scheduler.set_execution_handler(idle)
    world.scheduler.enqueue(WorkOrder("wo-1"))
    world.scheduler.start(thread=False)
    assert world.scheduler.dequeue("wo-1") is None
    assert world.monitor.get_available_slots() == 1


def test_an_empty_queue_is_told_and_nothing_is_claimed_without_a_handler(make_world: Make) -> None:
    world = make_world()
    world.scheduler.start(thread=False)
    assert world.named("queue-empty") == [()]
    world.scheduler.enqueue(WorkOrder("wo-1"))
    world.scheduler.poll()
    assert claimed(world) == []


def test_nothing_is_claimed_before_start_or_after_stop(make_world: Make) -> None:
    world = make_world()
    world.scheduler.set_execution_handler(idle)
    world.scheduler.enqueue(WorkOrder("wo-1"))
    world.scheduler.poll()
    assert claimed(world) == []
    world.scheduler.start(thread=False)
    world.scheduler.stop()
    world.scheduler.enqueue(WorkOrder("wo-2"))
    world.scheduler.poll()
    assert claimed(world) == ["wo-1"]
    stats = world.scheduler.get_stats()
    assert (stats.queue_depth, stats.is_running, stats.last_claim_time) == (1, False, world.clock.now())
    assert stats.resource_health.active_slots == 1


ODD: list[tuple[Any, str]] = [
    (WorkOrder("wo-1", priority=cast("Any", "high")), "priority"),
    (WorkOrder("wo-1", priority=True), "priority"),
    (WorkOrder("wo-1", priority=cast("Any", 1.5)), "priority"),
    (WorkOrder("wo-1", priority=2**70), "priority"),
    (WorkOrder(""), "id"),
    (WorkOrder(cast("Any", 7)), "id"),
    (WorkOrder("a\nb"), "id"),
    (WorkOrder("wo-1", submitted_at=-1), "submitted_at"),
    ("wo-1", "work_order"),
    ({"id": "wo-1"}, "work_order"),
]


@pytest.mark.parametrize(("order", "field"), ODD)
def test_a_work_order_that_makes_no_sense_is_refused_by_field_and_leaves_no_ghost(
    make_world: Make, order: Any, field: str
) -> None:
    world = make_world()
    with pytest.raises(InvalidInput) as refused:
        world.scheduler.enqueue(order)
    assert refused.value.field == field
    assert world.scheduler.get_queued_work_orders() == ()
    assert world.scheduler._orders == {}


def test_an_engine_that_fails_leaves_no_ghost_order(make_world: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()

    def broken(_: object) -> None:
        raise EngineStopped("the disk is full")

    monkeypatch.setattr(world.scheduler._engine, "do", broken)
    with pytest.raises(EngineStopped):
        world.scheduler.enqueue(WorkOrder("wo-1"))
    assert world.scheduler._orders == {}
    monkeypatch.undo()
    assert world.scheduler.enqueue(WorkOrder("wo-1"))
    assert world.scheduler.get_queue_depth() == 1


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"poll_interval_ms": 0}, "poll_interval_ms"),
        ({"poll_interval_ms": float("nan")}, "poll_interval_ms"),
        ({"poll_interval_ms": "1000"}, "poll_interval_ms"),
        ({"stagger_delay_ms": -1}, "stagger_delay_ms"),
        ({"stagger_delay_ms": 0.5}, "stagger_delay_ms"),
        ({"max_queue_depth": True}, "max_queue_depth"),
        ({"max_queue_depth": -1}, "max_queue_depth"),
        ({"max_queue_depth": 2**60}, "max_queue_depth"),
        ({"priority_enabled": 1}, "priority_enabled"),
        ({"priority_enabled": "yes"}, "priority_enabled"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused_by_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        pull_scheduler(scheduler=PullConfig(**config))
    assert refused.value.field == field


def test_a_full_queue_keeps_nobody_from_taking_a_slot_by_hand(make_world: Make) -> None:
    world = make_world(slots=2, max_queue_depth=1)
    assert world.scheduler.enqueue(WorkOrder("wo-1"))
    assert not world.scheduler.enqueue(WorkOrder("wo-2"))
    assert world.monitor.acquire_slot("by-hand") is not None
    assert world.scheduler.get_queue_depth() == 1


def test_two_schedulers_on_one_engine_do_not_wait_for_each_other_s_orders(make_world: Make) -> None:
    world = make_world(slots=2)
    other = PullScheduler(world.monitor, world.engine, world.clock, SeededIds(9), PullConfig(), world.spawned.append)
    assert other.enqueue(WorkOrder("theirs"))
    world.scheduler.set_execution_handler(idle)
    world.scheduler.enqueue(WorkOrder("mine"))
    world.scheduler.start(thread=False)
    assert claimed(world) == ["mine"]
    assert other.get_queue_depth() == 1


# -- stagger and memory -------------------------------------------------------------------------------------------


def test_starts_keep_their_distance(make_world: Make) -> None:
    world = make_world(slots=4, stagger_delay_ms=5_000)
    world.scheduler.set_execution_handler(idle)
    for number in range(3):
        world.scheduler.enqueue(WorkOrder(f"wo-{number}"))
    world.scheduler.start(thread=False)
    assert claimed(world) == ["wo-0"]
    assert world.named("stagger-wait") == [("wo-1", 5_000)]
    world.pass_time(4_000)
    world.scheduler.poll()
    assert claimed(world) == ["wo-0"]
    assert world.named("stagger-wait")[-1] == ("wo-1", 1_000)
    world.pass_time(1_000)
    world.scheduler.poll()
    assert claimed(world) == ["wo-0", "wo-1"]
    world.pass_time(5_000)
    world.scheduler.poll()
    assert claimed(world) == ["wo-0", "wo-1", "wo-2"]


def test_critical_memory_pauses_claims_and_they_resume_by_themselves(make_world: Make) -> None:
    world = make_world()
    world.scheduler.set_execution_handler(idle)
    world.machine.used = 0.95
    world.scheduler.enqueue(WorkOrder("wo-1"))
    world.scheduler.start(thread=False)
    for _ in range(3):
        world.pass_time(1_000)
        world.scheduler.poll()
    assert claimed(world) == []
    assert world.scheduler.get_queue_depth() == 1
    world.machine.used = 0.5
    world.scheduler.poll()
    assert claimed(world) == ["wo-1"]


# -- failures -----------------------------------------------------------------------------------------------------


class Stubborn:
    """A state machine that refuses the first claims."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.slots: list[str] = []

    def claim(self, slot_id: str) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ValueError("not in a state to be claimed")
        self.slots.append(slot_id)


def test_a_failed_claim_releases_the_slot_and_puts_the_order_back_at_the_head(make_world: Make) -> None:
    world = make_world(slots=2)
    world.scheduler.set_execution_handler(idle)
    machine = Stubborn(refusals=1)
    world.scheduler.enqueue(WorkOrder("stubborn", state_machine=machine))
    world.scheduler.enqueue(WorkOrder("next"))
    world.scheduler.start(thread=False)
    assert claimed(world) == []
    assert world.monitor.get_available_slots() == 2
    assert [order.id for order in world.scheduler.get_queued_work_orders()] == ["stubborn", "next"]
    world.scheduler.poll()
    assert claimed(world) == ["stubborn", "next"]
    assert machine.slots == [world.named("work-claimed")[0][1].id]
    verify(world.engine.writer.state)


def test_a_handler_that_raises_gives_its_slot_back(make_world: Make) -> None:
    world = make_world(slots=1)
    world.scheduler.set_execution_handler(lambda *_: 1 / 0)  # type: ignore[arg-type]
    world.scheduler.enqueue(WorkOrder("wo-1"))
    world.scheduler.start(thread=False)
    world.run_spawned()
    assert world.monitor.get_available_slots() == 1
    assert world.monitor.leaks == []


def test_an_order_for_which_there_is_no_thread_goes_back_to_the_head(make_world: Make) -> None:
    world = make_world(slots=2)
    world.scheduler.set_execution_handler(idle)
    for name in ("wo-1", "wo-2"):
        world.scheduler.enqueue(WorkOrder(name))
    threads = world.scheduler._spawn

    def none_left(_: object) -> None:
        raise RuntimeError("can't start new thread")

    world.scheduler._spawn = none_left
    world.scheduler.start(thread=False)
    assert world.monitor.get_available_slots() == 2
    assert [order.id for order in world.scheduler.get_queued_work_orders()] == ["wo-1", "wo-2"]
    world.scheduler._spawn = threads
    assert world.scheduler.poll() == 2
    verify(world.engine.writer.state)


def test_slots_are_renewed_while_the_handler_works_and_leak_when_it_forgets_them(make_world: Make) -> None:
    world = make_world(slots=1)
    world.scheduler.set_execution_handler(idle)
    world.scheduler.enqueue(WorkOrder("wo-1"))
    world.scheduler.start(thread=False)
    for _ in range(12):
        world.pass_time(10_000)
        world.scheduler.poll()
    assert world.monitor.get_available_slots() == 0
    world.run_spawned()
    world.pass_time(30_000)
    world.monitor.check_resources()
    assert [handle.work_order_id for handle in world.monitor.leaks] == ["wo-1"]
    assert world.monitor.get_available_slots() == 1


# -- the real thing -----------------------------------------------------------------------------------------------


def test_threads_and_coroutines_run_real_work_orders_by_themselves() -> None:
    scheduler = pull_scheduler(MonitorConfig(memory_per_slot_mb=1), PullConfig(stagger_delay_ms=0, poll_interval_ms=50))
    monitor: Any = scheduler.monitor
    done, all_done, most = [], threading.Event(), []

    async def handler(order: WorkOrder, slot: Any) -> None:
        most.append(monitor.get_health_report().active_slots)
        done.append(order.id)
        monitor.release_slot(slot)
        if len(done) == 5:
            all_done.set()

    scheduler.set_execution_handler(handler)
    monitor.start()
    scheduler.start()
    for number in range(5):
        assert scheduler.enqueue(WorkOrder(f"wo-{number}"))
    assert all_done.wait(20)
    scheduler.close()
    assert sorted(done) == [f"wo-{number}" for number in range(5)]
    assert max(most) <= 2


def test_closing_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    started = threading.Event()
    with pull_scheduler(MonitorConfig(memory_per_slot_mb=1), PullConfig(stagger_delay_ms=0)) as scheduler:
        monitor: Any = scheduler.monitor

        def handler(_: WorkOrder, slot: Any) -> None:
            started.set()
            monitor.release_slot(slot)

        scheduler.set_execution_handler(handler)
        monitor.start()
        scheduler.start()
        assert scheduler.enqueue(WorkOrder("wo-1"))
        assert started.wait(20)
        assert set(threading.enumerate()) > before
    left = [thread for thread in set(threading.enumerate()) - before if thread.name != "headgate-work-order"]
    assert left == [], "the handler's own thread may be on its last line"
    scheduler.close()


def test_closing_a_monitor_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    monitor = resource_monitor(MonitorConfig(memory_per_slot_mb=1))
    monitor.start()
    held = monitor.acquire_slot("wo-1")
    assert held is not None
    monitor.close()
    assert set(threading.enumerate()) <= before
    monitor.close()


def test_closing_waits_for_the_handlers_that_are_at_work() -> None:
    scheduler = pull_scheduler(MonitorConfig(memory_per_slot_mb=1), PullConfig(stagger_delay_ms=0))
    monitor: Any = scheduler.monitor
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def handler(_: WorkOrder, slot: Any) -> None:
        begun.set()
        assert go_on.wait(20)
        monitor.release_slot(slot)
        done.set()

    scheduler.set_execution_handler(handler)
    scheduler.start()
    assert scheduler.enqueue(WorkOrder("wo-1"))
    assert begun.wait(20)
    closing = threading.Thread(target=scheduler.close)
    closing.start()
    go_on.set()
    closing.join(20)
    assert not closing.is_alive()
    assert done.is_set(), "its slot was released on an engine that still served"


def test_starting_again_while_a_handler_is_at_work_makes_no_second_loop() -> None:
    scheduler = pull_scheduler(MonitorConfig(memory_per_slot_mb=1), PullConfig(stagger_delay_ms=0))
    begun, go_on = threading.Event(), threading.Event()

    def handler(_: WorkOrder, slot: Any) -> None:
        begun.set()
        assert go_on.wait(20)
        scheduler.monitor.give_back(slot)

    scheduler.set_execution_handler(handler)
    scheduler.start()
    scheduler.enqueue(WorkOrder("wo-1"))
    assert begun.wait(20)
    loop = scheduler._thread
    scheduler.stop()
    scheduler.start()
    assert scheduler._thread is loop
    scheduler.stop()
    go_on.set()
    scheduler.close()
    assert loop is not None
    assert not loop.is_alive()


def test_a_loop_outlives_an_engine_that_cannot_be_asked(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = pull_scheduler(MonitorConfig(poll_interval_ms=1), PullConfig(poll_interval_ms=1))
    monitor: Any = scheduler.monitor
    monitor.engine.stop()
    seen = threading.Event()
    with caplog.at_level("ERROR"):
        monitor._poll()
        scheduler.start()
        scheduler.on("queue-empty", seen.set)
        scheduler._wake.set()
        while not [record for record in caplog.records if record.name == "headgate.worker.pull"]:
            seen.wait(0.01)
        scheduler.close()
    assert "the next poll tries again" in caplog.text
