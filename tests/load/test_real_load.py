"""Real load on a real machine: a process that burns CPU and memory shuts the gate, and it opens when that ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core.settings import Settings, Threshold
from headgate.load.cgroup import Cgroup
from headgate.load.host import MemoryProbe, memory_state
from headgate.load.sampler import Sampler
from headgate.testing import ManualClock, external
from tests.load.world import engine_on

ROOT = Path(__file__).parents[2]
MB = 1 << 20
EATER = """
import sys
held = bytearray(int(sys.argv[1]))
held[::4096] = b"x" * len(held[::4096])
print("full", flush=True)
sys.stdin.read()
"""


def _own_groups() -> dict[str, Path]:
    """The folders of the groups that this process is in, by controller; `unified` for version 2."""
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields, kind = line.partition(" - ")[0].split(), line.partition(" - ")[2].split()
        if kind[0] == "cgroup2":
            mounts["unified"] = Path(fields[4])
        elif kind[0] == "cgroup":
            mounts.update(dict.fromkeys(kind[-1].split(","), Path(fields[4])))
    found: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(",") if names else ["unified"]:
            if name in mounts and (mounts[name] / path.strip("/")).is_dir():
                found[name] = mounts[name] / path.strip("/")
    return found


@pytest.fixture
def half_a_core() -> Iterator[list[str]]:
    """Groups below our own that may use half a core; gone at the end. Skips where the machine does not let us."""
    own, made = _own_groups(), []
    name = f"headgate-test-{os.getpid()}"
    try:
        if "cpu" in own:
            for controller in ("cpu", "cpuacct"):
                group = own[controller] / name
                if group not in made:
                    group.mkdir()
                    made.append(group)
            (made[0] / "cpu.cfs_quota_us").write_text("50000", encoding="ascii")
        else:
            group = own["unified"] / name
            group.mkdir()
            made.append(group)
            (group / "cpu.max").write_text("50000 100000", encoding="ascii")
    except (OSError, KeyError) as error:
        for group in made:
            group.rmdir()
        pytest.skip(f"REAL LOAD NOT TESTED: this machine does not let us limit a control group ({error})")
    yield [str(group) for group in made]
    for group in made:
        group.rmdir()


def burn(half_a_core: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.load.limited", *half_a_core]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return {entry["step"]: entry for entry in map(json.loads, done.stdout.splitlines())}


def test_a_burning_process_stops_new_leases_within_two_polls_and_its_end_lets_them_resume(
    half_a_core: list[str],
) -> None:
    steps = burn(half_a_core)
    if steps["burning"]["busy"] <= 8:  # neighbours may have kept it from using what it was allowed
        steps = burn(half_a_core)
    if steps["burning"]["busy"] <= 8 and os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip("REAL LOAD NOT TESTED: the machine is so busy that a process cannot even burn half a core")
    quiet, burning, over = steps["quiet"], steps["burning"], steps["over"]
    assert quiet["limit"] == 0.5, "the group's limit counts, not the machine's cores"
    assert (quiet["before"], quiet["busy"] < 5) == ("leased", True)
    assert burning["busy"] > 8
    assert burning["during"] == "queued", "no new lease while it burns"
    assert burning["reasons"]
    assert burning["before"] == "running", "a lease that is out lives on"
    assert (over["before"], over["during"]) == ("completed", "leased")
    assert over["busy"] < 6


def test_a_process_that_fills_memory_raises_the_rating_within_two_polls(clock: ManualClock) -> None:
    cgroup = Cgroup()
    before = memory_state(cgroup)
    eaten = min(2_000 * MB, before.available // 4)  # far more than others on the machine may take or free meanwhile
    if eaten < 200 * MB:
        pytest.skip(f"REAL LOAD NOT TESTED: only {before.available // MB} MB of memory are available")
    share = eaten / before.total
    band = Threshold(before.used_share + share * 0.3, before.used_share + share * 0.7, 1.0)
    settings = Settings(signals={"memory": band}, fall_half_life=1, recalculate=1)
    engine = engine_on(clock, settings)
    sampler = Sampler([MemoryProbe(cgroup)], clock)
    assert (sampler.hand_in(engine) or 0) < 5
    with subprocess.Popen(
        [sys.executable, "-c", EATER, str(eaten)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as eater:
        assert eater.stdout is not None
        assert eater.stdin is not None
        assert eater.stdout.readline() == b"full\n"
        clock.advance(5_000)
        assert (sampler.hand_in(engine) or 0) > 7
        engine.do(c.Submit((c.NewJob("j", external("j", units=40)),)))
        assert engine.read(lambda state: state.jobs["j"].lease) is None
        eater.stdin.close()
        eater.wait()
    clock.advance(5_000)
    assert (sampler.hand_in(engine) or 0) < 5
    assert engine.read(lambda state: state.jobs["j"].lease) is not None
    sampler.stop()
