"""Every probe: what it measures, and that each of its failures fails closed and says why."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from headgate.core import commands as c
from headgate.core.cluster import Gpu
from headgate.core.settings import SIGNALS, Settings
from headgate.engine.questions import Explain, GetStatus
from headgate.load.api import ApiRecorder
from headgate.load.cgroup import Cgroup
from headgate.load.detect import host_probes
from headgate.load.gpu import GpuProbe
from headgate.load.host import CpuProbe, DiskIoProbe, DiskProbe, MemoryProbe, NetworkProbe
from headgate.load.pressure import PressureProbe, pressure_files
from headgate.load.probe import Guarded, Probe, ProbeFailed, Probes, measure
from headgate.load.sampler import Sampler
from headgate.system import SystemClock
from headgate.testing import ManualClock, external
from tests.load import trees
from tests.load.world import engine_on


class Fake:
    """A probe that does what the test says."""

    def __init__(self, answer: Any = 0.1, signal: str = "cpu") -> None:
        self.name = signal
        self.signals: tuple[str, ...] = (signal,)
        self.answer = answer
        self.hold: threading.Event | None = None
        self.entered = threading.Event()
        self.reads = 0

    def read(self) -> Mapping[str, float]:
        self.reads += 1
        self.entered.set()
        if self.hold is not None:
            assert self.hold.wait(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {self.signals[0]: self.answer}


@pytest.fixture
def stuck() -> Iterator[Fake]:
    probe = Fake(signal="disk")
    probe.hold = threading.Event()
    yield probe
    probe.hold.set()


# -- failing closed -----------------------------------------------------------------------------------------------

FAULTS = {
    "missing file": (FileNotFoundError(2, "No such file or directory", "/proc/stat"), "No such file"),
    "exception": (ZeroDivisionError("division by zero"), "division by zero"),
    "NaN": (math.nan, "nan"),
    "infinity": (math.inf, "inf"),
    "nothing": (None, "None"),
    "a word": ("high", "'high'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_failure_of_a_probe_rates_10_and_shows_as_degraded_with_its_reason(
    fault: str, clock: ManualClock
) -> None:
    answer, reason = FAULTS[fault]
    engine = engine_on(clock, Settings())
    sampler = Sampler([Fake(answer), Fake(0.1, "memory")], clock)
    assert sampler.hand_in(engine) == 10
    engine.do(c.Submit((c.NewJob("j", external("j")),)))
    status = engine.ask(GetStatus())
    assert status.usable_units == 0
    assert status.signals == {"cpu": 10.0, "memory": 0.0}
    assert [text for text in status.degraded if text.startswith("cpu: ") and reason in text]
    assert reason in engine.ask(Explain("j")).reasons[0].detail()
    assert engine.read(lambda state: state.jobs["j"].lease) is None
    sampler.stop()


def test_a_probe_that_hangs_rates_10_and_does_not_hold_up_the_others(clock: ManualClock, stuck: Fake) -> None:
    engine = engine_on(clock, Settings())
    well = Fake(0.1)
    sampler = Sampler([stuck, well], clock, limit=50)
    assert sampler.hand_in(engine) == 10
    status = engine.ask(GetStatus())
    assert status.signals == {"cpu": 0.0, "disk": 10.0}
    assert "disk: the disk probe failed: it did not answer in time" in status.degraded
    assert sampler.hand_in(engine) == 10
    assert (stuck.reads, well.reads) == (1, 2), "a probe that hangs is not asked again"
    assert "(2 times in a row)" in str(engine.ask(GetStatus()).degraded)


def test_a_probe_that_comes_back_is_believed_again(stuck: Fake) -> None:
    guarded = Guarded(stuck)
    guarded.ask()
    assert guarded.collect(0.01).signals == {"disk": None}
    assert stuck.hold is not None
    stuck.hold.set()
    assert guarded._done.wait(10)
    guarded.ask()
    assert guarded.collect(10).signals == {"disk": 0.1}
    guarded.close()


def test_a_probe_that_breaks_a_promise_is_reported(clock: ManualClock) -> None:
    probe = Fake()
    probe.signals = ("cpu", "memory")
    reading = measure(probe)
    assert reading.signals == {"cpu": 0.1, "memory": None}
    assert list(reading.reasons) == ["memory"]


def test_several_probes_that_hang_cost_the_time_limit_once() -> None:
    hung = [Fake(signal=name) for name in ("cpu", "memory", "disk")]
    hold = threading.Event()
    for probe in hung:
        probe.hold = hold
    waited: list[float] = []

    class Counting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return super().wait(timeout)

    probes = Probes(hung, limit=20)
    for guarded in probes._guarded:
        guarded._done = Counting()
    assert set(probes.read().signals.values()) == {None}
    assert waited == [0.02, 0.0, 0.0]
    hold.set()


# -- each probe ---------------------------------------------------------------------------------------------------


def test_the_probes_of_this_machine_all_answer_within_their_range() -> None:
    clock = SystemClock()
    probes = host_probes(clock)
    assert threading.Event().wait(0.1) is False  # rates need some time to have passed
    for probe in probes:
        reading = measure(probe)
        assert reading.reasons == {}
        for name, value in reading.signals.items():
            assert value is not None
            assert 0 <= value <= SIGNALS[name].largest


def test_every_signal_of_a_probe_has_a_threshold(clock: ManualClock, tmp_path: Path) -> None:
    kinds: list[Any] = [CpuProbe, MemoryProbe, DiskProbe, DiskIoProbe, NetworkProbe, GpuProbe, ApiRecorder]
    named = {name for kind in kinds for name in kind.signals} | {"pressure_cpu", "pressure_memory", "pressure_io"}
    assert named == set(SIGNALS)


def test_cpu_use_is_that_of_the_cores_we_may_run_on(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    def core(user: float, idle: float) -> Any:
        return psutil._pslinux.scputimes(user, 0, 0, idle, 0, 0, 0, 0, 0, 0)

    times = [core(0, 0), core(0, 0)]
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1})
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: list(times))
    probe = CpuProbe(clock, Cgroup(Path("/")))
    monkeypatch.setattr(probe, "_cgroup", SimpleNamespace(cpu=lambda: None))
    times[:] = [core(10, 0), core(3, 7)]
    assert probe.read() == {"cpu": pytest.approx(0.3)}
    with pytest.raises(ProbeFailed, match="no time has passed"):
        probe.read()


def test_a_full_disk_is_full_by_bytes_or_by_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def disk(blocks: int, files: int) -> Any:
        return SimpleNamespace(
            f_blocks=100, f_bfree=blocks, f_bavail=blocks, f_files=100, f_ffree=files, f_favail=files
        )

    monkeypatch.setattr("os.statvfs", lambda _: disk(40, 90))
    assert DiskProbe().read() == {"disk": pytest.approx(0.6)}
    monkeypatch.setattr("os.statvfs", lambda _: disk(40, 5))
    assert DiskProbe().read() == {"disk": pytest.approx(0.95)}


def test_a_disk_that_is_not_there_fails(tmp_path: Path) -> None:
    reading = measure(DiskProbe(str(tmp_path / "gone")))
    assert reading.signals == {"disk": None}
    assert "No such file or directory" in reading.reasons["disk"]


def test_the_busiest_disk_decides(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    busy = {"sda": 0, "nvme0n1": 0, "loop0": 0}

    def counters(perdisk: bool) -> dict[str, Any]:
        return {name: SimpleNamespace(busy_time=value) for name, value in busy.items()}

    monkeypatch.setattr(psutil, "disk_io_counters", counters)
    probe = DiskIoProbe(clock)
    clock.advance(1_000)
    busy.update(sda=100, nvme0n1=700, loop0=1_000)
    assert probe.read() == {"disk_io": pytest.approx(0.7)}
    clock.advance(1_000)
    busy.clear()
    with pytest.raises(ProbeFailed, match="no disks"):
        probe.read()


def test_the_fullest_link_decides_and_links_that_vanish_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    sent = {"eth0": 0, "eth1": 0}
    up = SimpleNamespace(isup=True, speed=1_000)
    monkeypatch.setattr(psutil, "net_if_stats", lambda: dict.fromkeys(sent, up))
    counters = lambda **_: {n: SimpleNamespace(bytes_recv=0, bytes_sent=v) for n, v in sent.items()}  # noqa: E731
    monkeypatch.setattr(psutil, "net_io_counters", counters)
    probe = NetworkProbe(clock)
    clock.advance(2_000)
    sent["eth1"] = 125_000_000
    assert probe.read() == {"network": pytest.approx(0.5)}
    clock.advance(2_000)
    sent.clear()
    with pytest.raises(ProbeFailed, match="eth0, eth1"):
        probe.read()


# -- pressure -----------------------------------------------------------------------------------------------------


def test_pressure_is_the_share_of_time_since_the_last_reading(tmp_path: Path, clock: ManualClock) -> None:
    folder = tmp_path / "proc/pressure"
    for kind in ("cpu", "memory", "io"):
        trees.pressure(folder, kind, total=1_000_000)
    probe = PressureProbe(clock, pressure_files(_bare(tmp_path), tmp_path))
    clock.advance(5_000)
    trees.pressure(folder, "cpu", total=1_000_000 + 2_500_000)
    assert probe.read() == {"pressure_cpu": 0.5, "pressure_memory": 0.0, "pressure_io": 0.0}
    trees.pressure(folder, "cpu", total=9_000_000, average=12.5)
    assert probe.read()["pressure_cpu"] == 0.125, "without time between them the kernel's own average counts"


@pytest.mark.parametrize("content", [None, "", "full avg10=0.00 total=0\n", "some avg10=high total=1\n", "some\n"])
def test_a_pressure_file_that_is_gone_or_strange_fails(tmp_path: Path, clock: ManualClock, content: str | None) -> None:
    path = trees.pressure(tmp_path, "cpu", total=5)
    probe = PressureProbe(clock, {"cpu": path})
    if content is None:
        path.unlink()
    else:
        path.write_text(content, encoding="ascii")
    clock.advance(5_000)
    reading = measure(probe)
    assert reading.signals == {"pressure_cpu": None}
    assert str(path) in reading.reasons["pressure_cpu"]


def test_a_limited_container_has_pressure_of_its_own(tmp_path: Path) -> None:
    trees.pressure(tmp_path / "proc/pressure", "cpu", total=1)
    folder = trees.version2(tmp_path)
    trees.limit2(folder, cpu="50000 100000")
    own = trees.pressure(folder, "cpu.pressure", total=1)
    assert pressure_files(Cgroup(tmp_path), tmp_path) == {"cpu": own}


def test_without_pressure_the_disks_are_asked_how_busy_they_are(tmp_path: Path, clock: ManualClock) -> None:
    _bare(tmp_path)
    names = [probe.name for probe in host_probes(clock, cgroup=_bare(tmp_path), root=tmp_path)]
    assert "disk_io" in names
    assert "pressure" not in names


def _bare(root: Path) -> Cgroup:
    trees.write(root, "proc/self/cgroup", "0::/\n")
    trees.write(root, "proc/self/mountinfo", "23 1 0:1 / / rw - ext4 /dev/sda rw\n")
    return Cgroup(root)


# -- GPUs ---------------------------------------------------------------------------------------------------------


def test_the_gpu_with_the_most_room_decides_and_the_hottest(clock: ManualClock) -> None:
    gpus = (Gpu("a", "A", 100, 90, 1.0, 60.0), Gpu("b", "B", 100, 20, 0.3, 85.0))
    probe: Probe = GpuProbe(lambda: gpus)
    assert probe.read() == {"gpu": 0.3, "gpu_memory": 0.2, "gpu_temperature": 85.0}


def test_gpus_that_vanish_are_a_failure() -> None:
    probe = GpuProbe(tuple)
    assert measure(probe).signals == {"gpu": None, "gpu_memory": None, "gpu_temperature": None}
    assert probe.latest == ()
