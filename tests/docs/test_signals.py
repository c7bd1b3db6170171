"""The page about signals keeps up with the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from headgate.core.settings import SIGNALS, TimeOfDay
from headgate.load.api import SLICES, ApiRecorder
from headgate.load.gpu import GpuProbe
from headgate.load.health import HealthReport
from headgate.load.host import CpuProbe, DiskIoProbe, DiskProbe, MemoryProbe, NetworkProbe
from headgate.load.monitor import EVENTS as MONITOR_EVENTS
from headgate.load.pressure import KINDS, PressureProbe
from headgate.worker.pull import EVENTS as SCHEDULER_EVENTS
from tests.docs.test_reference import tables

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "signals.md"
PROBES: list[Any] = [CpuProbe, MemoryProbe, DiskProbe, DiskIoProbe, NetworkProbe, GpuProbe, ApiRecorder]


def test_every_signal_stands_there_with_its_thresholds_and_its_probe() -> None:
    rows = {row[0]: row for row in tables("signals", "signal", "low", "high")}
    assert set(rows) == set(SIGNALS)
    for name, threshold in SIGNALS.items():
        assert [float(cell) for cell in rows[name][1:3]] == [threshold.low, threshold.high], name
    by_probe = {signal: probe.name for probe in PROBES for signal in probe.signals}
    by_probe |= {f"pressure_{kind}": PressureProbe.name for kind in KINDS}
    assert {name: row[3] for name, row in rows.items()} == by_probe


def test_every_probe_stands_there() -> None:
    documented = [row[0] for row in tables("signals", "probe", "there when")]
    assert sorted(documented) == sorted([probe.name for probe in PROBES] + [PressureProbe.name])


def test_the_health_report_stands_there_with_its_names_in_json() -> None:
    fields = {field.name: field.encode_name for field in msgspec.structs.fields(HealthReport)}
    assert {row[0]: row[1] for row in tables("signals", "attribute", "as JSON")} == fields


def test_every_event_stands_there() -> None:
    rows = tables("signals", "event", "of")
    assert [row[0] for row in rows if row[1] == "monitor"] == list(MONITOR_EVENTS)
    assert [row[0] for row in rows if row[1] == "scheduler"] == list(SCHEDULER_EVENTS)


def test_the_length_of_the_window_is_the_one_in_the_code() -> None:
    assert f"the last {SLICES} polls" in PAGE.read_text(encoding="utf-8")


def test_every_field_of_the_time_of_day_stands_there_with_its_default() -> None:
    rows = {row[0]: row[1] for row in tables("settings", "field", "default")}
    documented = {name: rows[name] for name in TimeOfDay.__struct_fields__}
    assert documented == {name: str(getattr(TimeOfDay(), name)) for name in TimeOfDay.__struct_fields__}
