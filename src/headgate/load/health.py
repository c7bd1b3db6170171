"""The health of the machine as the resource monitor reports it: memory, pressure, CPU, slots."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

import msgspec

from headgate.core.conform import conform
from headgate.core.errors import InvalidInput
from headgate.load.cgroup import Cgroup
from headgate.load.host import CpuProbe, memory_state
from headgate.load.probe import ProbeFailed, Reading
from headgate.ports import Clock

MemoryPressure = Literal["none", "warning", "critical"]
MB = 1024 * 1024
MOST_SLOTS = 100_000


class MonitorConfig(msgspec.Struct, frozen=True):
    """How many slots, how much memory each needs, and when memory is short."""

    max_concurrent_slots: int = 2
    memory_per_slot_mb: int = 4_096
    warning_threshold: float = 0.8
    critical_threshold: float = 0.9
    poll_interval_ms: int = 5_000

    def check(self) -> MonitorConfig:
        """Refuse what makes no sense, naming the field."""
        config = conform(self)
        for field in ("max_concurrent_slots", "poll_interval_ms"):
            if getattr(config, field) < 1:
                raise InvalidInput("must be at least 1", field=field)
        if config.max_concurrent_slots > MOST_SLOTS:
            raise InvalidInput(f"must be at most {MOST_SLOTS}", field="max_concurrent_slots")
        if config.memory_per_slot_mb < 0:
            raise InvalidInput("must not be negative", field="memory_per_slot_mb")
        for field in ("warning_threshold", "critical_threshold"):
            if not 0 < getattr(config, field) <= 1:
                raise InvalidInput("must be above 0 and at most 1", field=field)
        if config.warning_threshold > config.critical_threshold:
            raise InvalidInput("must not be above critical_threshold", field="warning_threshold")
        return config


class HealthReport(msgspec.Struct, frozen=True, rename="camel"):
    """One look at memory, CPU and slots. As JSON the fields have the names of the source: `memoryTotalMB` and so on."""

    memory_total_mb: int = msgspec.field(name="memoryTotalMB")
    memory_used_mb: int = msgspec.field(name="memoryUsedMB")
    memory_available_mb: int = msgspec.field(name="memoryAvailableMB")
    memory_pressure: MemoryPressure
    active_slots: int
    max_slots: int
    available_slots: int
    cpu_usage_percent: int
    healthy: bool


class HealthProbe:
    """What a health report is made of. Two looks in quick succession share one figure of the CPU."""

    name = "health"
    signals = ("memory_total", "memory_available", "cpu")

    def __init__(self, clock: Clock, cgroup: Cgroup) -> None:
        self._cgroup = cgroup
        self._cpu = CpuProbe(clock, cgroup)
        self._last_cpu = 0.0

    def read(self) -> Mapping[str, float]:
        """Bytes, bytes, and a share."""
        memory = memory_state(self._cgroup)
        with suppress(ProbeFailed):  # too soon after the last look; memory, which decides, is fresh
            self._last_cpu = self._cpu.read()["cpu"]
        return {"memory_total": memory.total, "memory_available": memory.available, "cpu": self._last_cpu}


def health_report(reading: Reading, active: int, config: MonitorConfig) -> HealthReport:
    """The report for a reading; memory that could not be measured counts as critical."""
    values = reading.signals
    total, available, cpu = values["memory_total"], values["memory_available"], values["cpu"]
    pressure: MemoryPressure = "critical"
    if total and available is not None:
        pressure = _pressure(1.0 - available / total, config)
    known = bool(total) and available is not None
    total_mb, free_mb = int((total or 0) // MB), int((available or 0) // MB) if known else 0
    return HealthReport(
        total_mb,
        total_mb - free_mb,
        free_mb,
        pressure,
        active,
        config.max_concurrent_slots,
        max(0, config.max_concurrent_slots - active),
        100 if cpu is None else round(100 * min(1.0, cpu)),
        pressure != "critical" and active < config.max_concurrent_slots,
    )


def _pressure(used_share: float, config: MonitorConfig) -> MemoryPressure:
    if used_share >= config.critical_threshold:
        return "critical"
    return "warning" if used_share >= config.warning_threshold else "none"
