"""Limits of containers, both versions of control groups, on trees of files."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from headgate.load.cgroup import Cgroup, CpuUse, MemoryUse
from headgate.load.host import CpuProbe, MemoryProbe, memory_state
from headgate.load.probe import ProbeFailed
from headgate.testing import ManualClock
from tests.load import trees

MB = 1 << 20


def test_limits_of_version_2_are_read(tmp_path: Path) -> None:
    folder = trees.version2(tmp_path)
    trees.limit2(folder, cpu="150000 100000", memory=str(512 * MB), used=300 * MB, droppable=100 * MB)
    trees.usage2(folder, 2.5, periods=10, throttled=4)
    cgroup = Cgroup(tmp_path)
    assert cgroup.cpu() == CpuUse(1.5, 2.5, 10, 4)
    assert cgroup.memory() == MemoryUse(512 * MB, 200 * MB)


def test_limits_of_version_1_are_read(tmp_path: Path) -> None:
    folders = trees.version1(tmp_path)
    trees.limit1(folders, quota=50_000, memory=256 * MB, used=200 * MB, droppable=50 * MB)
    trees.write(folders["cpuacct"], "cpuacct.usage", "1500000000\n")
    trees.write(folders["cpu"], "cpu.stat", "nr_periods 8\nnr_throttled 3\nthrottled_time 9\n")
    cgroup = Cgroup(tmp_path)
    assert cgroup.cpu() == CpuUse(0.5, 1.5, 8, 3)
    assert cgroup.memory() == MemoryUse(256 * MB, 150 * MB)


@pytest.mark.parametrize("version", [1, 2])
def test_no_limit_is_no_limit(tmp_path: Path, version: int) -> None:
    if version == 2:
        trees.limit2(trees.version2(tmp_path))
    else:
        trees.limit1(trees.version1(tmp_path), memory=0x7FFFFFFFFFFFF000)
    cgroup = Cgroup(tmp_path)
    assert cgroup.cpu() is None
    assert cgroup.memory() is None
    host = psutil.virtual_memory()
    assert memory_state(cgroup).total == host.total


def test_the_tightest_limit_on_the_way_up_binds(tmp_path: Path) -> None:
    folder = trees.version2(tmp_path, "/slice/service")
    trees.limit2(folder, cpu="400000 100000", memory=str(800 * MB), used=100 * MB)
    trees.limit2(folder.parent, cpu="100000 100000", memory=str(400 * MB), used=390 * MB)
    trees.usage2(folder.parent, 7.0)
    cgroup = Cgroup(tmp_path)
    assert cgroup.cpu() == CpuUse(1.0, 7.0, 0, 0)
    assert cgroup.memory() == MemoryUse(400 * MB, 390 * MB)


def test_inside_a_container_only_its_own_part_is_mounted(tmp_path: Path) -> None:
    folder = trees.version2(tmp_path, mounted=trees.GROUP)
    trees.limit2(folder, cpu="50000 100000")
    assert Cgroup(tmp_path).cpu() == CpuUse(0.5, 0.0, 0, 0)


def test_a_soft_limit_of_memory_counts_too(tmp_path: Path) -> None:
    folder = trees.version2(tmp_path)
    trees.limit2(folder, memory="max", used=90 * MB)
    trees.write(folder, "memory.high", f"{100 * MB}\n")
    assert Cgroup(tmp_path).memory() == MemoryUse(100 * MB, 90 * MB)


def test_the_containers_memory_counts_and_not_the_machines(tmp_path: Path) -> None:
    trees.limit2(trees.version2(tmp_path), memory=str(512 * MB), used=480 * MB, droppable=0)
    state = memory_state(Cgroup(tmp_path))
    assert (state.total, state.available) == (512 * MB, 32 * MB)
    assert MemoryProbe(Cgroup(tmp_path)).read() == {"memory": pytest.approx(480 / 512)}


def test_under_a_cpu_limit_the_containers_own_use_counts(tmp_path: Path, clock: ManualClock) -> None:
    folder = trees.version2(tmp_path)
    trees.limit2(folder, cpu="50000 100000")
    trees.usage2(folder, 10.0)
    probe = CpuProbe(clock, Cgroup(tmp_path))
    clock.advance(4_000)
    trees.usage2(folder, 10.5)
    probe._before = (0.0, 0.0)  # the machine's own counters have moved on as well
    assert probe.read() == {"cpu": pytest.approx(0.25)}
    clock.advance(4_000)
    trees.usage2(folder, 12.5, periods=40, throttled=36)
    probe._before = (0.0, 0.0)
    assert probe.read() == {"cpu": pytest.approx(1.0)}


def test_being_held_back_counts_where_use_alone_does_not_show_it(tmp_path: Path, clock: ManualClock) -> None:
    folders = trees.version1(tmp_path)
    trees.limit1(folders, quota=50_000)
    (folders["cpuacct"] / "cpuacct.usage").unlink()
    folders["cpuacct"].rmdir()
    probe = CpuProbe(clock, Cgroup(tmp_path))
    clock.advance(5_000)
    trees.write(folders["cpu"], "cpu.stat", "nr_periods 50\nnr_throttled 45\nthrottled_time 9\n")
    probe._before = (0.0, 0.0)
    assert probe.read() == {"cpu": pytest.approx(0.9)}


@pytest.mark.parametrize("name", ["cpu.max", "cpu.stat"])
def test_a_cpu_file_that_goes_missing_is_a_failure_and_never_no_limit(tmp_path: Path, name: str) -> None:
    folder = trees.version2(tmp_path)
    trees.limit2(folder, cpu="50000 100000")
    cgroup = Cgroup(tmp_path)
    (folder / name).unlink()
    with pytest.raises(ProbeFailed, match=name):
        cgroup.cpu()


@pytest.mark.parametrize("name", ["memory.max", "memory.current", "memory.stat"])
def test_a_memory_file_that_goes_missing_is_a_failure_and_never_no_limit(tmp_path: Path, name: str) -> None:
    folder = trees.version2(tmp_path)
    trees.limit2(folder, memory=str(512 * MB))
    cgroup = Cgroup(tmp_path)
    (folder / name).unlink()
    with pytest.raises(ProbeFailed, match=name):
        cgroup.memory()


def test_the_groups_of_this_very_process_can_be_read() -> None:
    cgroup = Cgroup()
    cpu, memory = cgroup.cpu(), cgroup.memory()
    assert cpu is None or cpu.cpus > 0
    assert memory is None or memory.limit > 0
