"""Slots, memory pressure, health and leaks of the resource monitor."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from headgate.core import commands as c
from headgate.core.errors import InvalidInput
from headgate.core.settings import Settings
from headgate.core.slots import OnRequest
from headgate.core.verify import verify
from headgate.load import MonitorConfig, ResourceMonitor, SlotHandle
from headgate.testing import ManualClock, SeededIds, job
from tests.load.world import Machine, Make, engine_on


def test_the_defaults_are_those_of_the_source_document() -> None:
    assert MonitorConfig() == MonitorConfig(2, 4_096, 0.8, 0.9, 5_000)


def test_slots_are_handed_out_up_to_the_limit_and_come_back_on_release(make_world: Make) -> None:
    world = make_world(slots=2)
    first, second = world.monitor.acquire_slot("wo-1"), world.monitor.acquire_slot("wo-2")
    assert first is not None
    assert second is not None
    assert (first.work_order_id, first.acquired_at) == ("wo-1", world.clock.now())
    assert world.monitor.acquire_slot("wo-3") is None
    assert world.monitor.get_available_slots() == 0
    assert not world.monitor.is_healthy()
    world.monitor.release_slot(first)
    assert world.named("slot-available") == [()]
    assert world.monitor.get_available_slots() == 1
    assert world.monitor.acquire_slot("wo-3") is not None
    verify(world.engine.writer.state)


def test_releasing_an_unknown_handle_warns_and_changes_nothing(
    make_world: Make, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    held = world.monitor.acquire_slot("wo-1")
    assert held is not None
    with caplog.at_level(logging.WARNING):
        world.monitor.release_slot(SlotHandle("nobody", 0, "wo-9"))
    assert "slot nobody is not known" in caplog.text
    assert world.monitor.get_available_slots() == 1
    world.monitor.release_slot(held)
    world.monitor.release_slot(held)
    assert world.monitor.get_available_slots() == 2
    assert len(world.named("slot-available")) == 1


@pytest.mark.parametrize(
    ("used", "pressure"), [(0.79, "none"), (0.8, "warning"), (0.89, "warning"), (0.9, "critical"), (0.99, "critical")]
)
def test_memory_pressure_has_three_levels(make_world: Make, used: float, pressure: str) -> None:
    world = make_world(memory_per_slot_mb=0)
    world.machine.used = used
    assert world.monitor.get_health_report().memory_pressure == pressure
    assert (world.monitor.acquire_slot("wo-1") is None) == (pressure == "critical")


def test_too_little_memory_for_another_slot_refuses_it(make_world: Make) -> None:
    world = make_world(memory_per_slot_mb=4_096)
    world.machine.total_mb, world.machine.used = 16_000, 0.75
    assert world.monitor.get_health_report().memory_available_mb == 4_000
    assert world.monitor.acquire_slot("wo-1") is None
    world.machine.used = 0.7
    assert world.monitor.acquire_slot("wo-1") is not None


def test_the_health_report_has_the_fields_of_the_source_document(make_world: Make) -> None:
    world = make_world()
    world.monitor.acquire_slot("wo-1")
    assert msgspec.to_builtins(world.monitor.get_health_report()) == {
        "memoryTotalMB": 16_000,
        "memoryUsedMB": 1_600,
        "memoryAvailableMB": 14_400,
        "memoryPressure": "none",
        "activeSlots": 1,
        "maxSlots": 2,
        "availableSlots": 1,
        "cpuUsagePercent": 25,
        "healthy": True,
    }


def test_a_change_of_pressure_and_of_health_is_told_once(make_world: Make) -> None:
    world = make_world()
    world.monitor.check_resources()
    world.monitor.check_resources()
    assert len(world.named("health-changed")) == 1
    world.machine.used = 0.95
    world.monitor.check_resources()
    world.monitor.check_resources()
    assert [level for level, _ in world.named("memory-pressure")] == ["critical"]
    assert [report.healthy for (report,) in world.named("health-changed")] == [True, False]
    world.machine.used = 0.1
    world.monitor.check_resources()
    assert [level for level, _ in world.named("memory-pressure")] == ["critical", "none"]


@pytest.mark.parametrize("fault", [OSError("no such device"), float("nan"), None])
def test_memory_that_cannot_be_measured_counts_as_critical_and_says_why(
    make_world: Make, monkeypatch: pytest.MonkeyPatch, fault: object
) -> None:
    world = make_world()

    def broken(self: Machine) -> dict[str, object]:
        if isinstance(fault, Exception):
            raise fault
        return {"memory_total": fault, "memory_available": fault, "cpu": fault}

    monkeypatch.setattr(Machine, "read", broken)
    assert world.monitor.acquire_slot("wo-1") is None
    report = world.monitor.check_resources()
    assert (report.memory_pressure, report.healthy, report.cpu_usage_percent) == ("critical", False, 100)
    assert world.monitor.degraded
    assert str(fault) in world.monitor.degraded[0]
    monkeypatch.undo()
    assert world.monitor.acquire_slot("wo-1") is not None
    assert world.monitor.degraded == ()


def test_a_lost_release_comes_back_when_the_lease_runs_out_and_is_reported(make_world: Make) -> None:
    world = make_world(slots=1)
    lost = world.monitor.acquire_slot("wo-1")
    world.pass_time(29_000)
    world.monitor.check_resources()
    assert world.monitor.acquire_slot("wo-2") is None
    assert world.monitor.leaks == []
    world.pass_time(1_000)
    world.monitor.check_resources()
    assert world.monitor.leaks == [lost]
    assert world.named("slot-leaked") == [(lost,)]
    assert world.monitor.acquire_slot("wo-2") is not None
    verify(world.engine.writer.state)


def test_a_slot_that_is_renewed_does_not_run_out(make_world: Make) -> None:
    world = make_world(slots=1)
    held = world.monitor.acquire_slot("wo-1")
    assert held is not None
    for _ in range(10):
        world.pass_time(10_000)
        assert world.monitor.renew_slot(held)
    world.monitor.check_resources()
    assert world.monitor.leaks == []
    world.pass_time(30_000)
    assert not world.monitor.renew_slot(held)


def test_a_release_after_the_lease_ran_out_frees_nobody_elses_slot(make_world: Make) -> None:
    world = make_world(slots=1)
    late = world.monitor.acquire_slot("wo-1")
    assert late is not None
    world.pass_time(30_000)
    assert world.monitor.acquire_slot("wo-2") is not None
    world.monitor.release_slot(late)
    assert world.monitor.get_available_slots() == 0


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"max_concurrent_slots": 0}, "max_concurrent_slots"),
        ({"max_concurrent_slots": True}, "max_concurrent_slots"),
        ({"max_concurrent_slots": 2.0}, "max_concurrent_slots"),
        ({"max_concurrent_slots": 10**9}, "max_concurrent_slots"),
        ({"memory_per_slot_mb": -1}, "memory_per_slot_mb"),
        ({"memory_per_slot_mb": "4GB"}, "memory_per_slot_mb"),
        ({"warning_threshold": 0.95}, "warning_threshold"),
        ({"warning_threshold": float("nan")}, "warning_threshold"),
        ({"warning_threshold": None}, "warning_threshold"),
        ({"critical_threshold": 1.5}, "critical_threshold"),
        ({"critical_threshold": float("nan")}, "critical_threshold"),
        ({"critical_threshold": "0.9"}, "critical_threshold"),
        ({"poll_interval_ms": 0}, "poll_interval_ms"),
        ({"poll_interval_ms": float("inf")}, "poll_interval_ms"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused_by_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        MonitorConfig(**config).check()
    assert refused.value.field == field


@pytest.mark.parametrize("name", ["", 7, "a\0b"])
def test_a_slot_needs_the_name_of_its_work_order(make_world: Make, name: Any) -> None:
    world = make_world()
    with pytest.raises(InvalidInput) as refused:
        world.monitor.acquire_slot(name)
    assert refused.value.field == "work_order_id"
    assert world.engine.read(lambda state: state.depth) == 0


def test_an_engine_whose_queue_is_full_gives_no_slot_and_raises_nothing() -> None:
    clock = ManualClock()
    engine = engine_on(clock, Settings(fixed_busy=0, max_queue_depth=1), OnRequest())
    engine.do(c.Submit((c.NewJob("waits", job("waits")),)))
    monitor = ResourceMonitor(engine, Machine(), clock, SeededIds(1))
    assert monitor.acquire_slot("wo-1") is None
    monitor.close()


def test_what_gets_no_slot_leaves_nothing_in_the_queue(make_world: Make) -> None:
    world = make_world(slots=1)
    assert world.monitor.acquire_slot("wo-1") is not None
    assert world.monitor.acquire_slot("wo-2") is None
    assert world.engine.read(lambda state: state.depth) == 0


def test_listening_to_an_event_that_does_not_exist_is_refused(make_world: Make) -> None:
    with pytest.raises(InvalidInput, match="slot-available"):
        make_world().monitor.on("slot-avaliable", print)


def test_a_listener_that_raises_spoils_nothing_for_the_others(
    make_world: Make, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    heard: list[object] = []
    world.monitor.on("health-changed", lambda _: 1 / 0)
    world.monitor.on("health-changed", heard.append)
    world.monitor.check_resources()
    assert len(heard) == 1
    assert "a listener to health-changed failed" in caplog.text
