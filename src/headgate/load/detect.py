"""Which probes this machine can have. What is there at the start is expected to stay: its loss is a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headgate.core.cluster import Gpu
from headgate.load.cgroup import Cgroup
from headgate.load.gpu import GpuProbe
from headgate.load.host import CpuProbe, DiskIoProbe, DiskProbe, MemoryProbe, NetworkProbe, known_links
from headgate.load.pressure import PressureProbe, pressure_files
from headgate.load.probe import Probe
from headgate.ports import Clock


def host_probes(
    clock: Clock,
    *,
    cgroup: Cgroup | None = None,
    disk: str = "/",
    root: Path = Path("/"),
    gpus: Callable[[], Sequence[Gpu]] | None = None,
) -> list[Probe]:
    """CPU, memory and disk always; pressure, network and GPUs where the machine has them.

    How busy the disks are is asked only where the kernel keeps no pressure: a disk that serves many requests at once
    can be busy all the time and far from full, while pressure says that somebody waited.
    """
    cgroup = cgroup or Cgroup(root)
    probes: list[Probe] = [CpuProbe(clock, cgroup), MemoryProbe(cgroup), DiskProbe(disk)]
    files = pressure_files(cgroup, root)
    if files:
        probes.append(PressureProbe(clock, files))
    if "io" not in files:
        probes.append(DiskIoProbe(clock))
    if links := known_links():
        probes.append(NetworkProbe(clock, tuple(links)))
    if gpus is not None:
        probes.append(GpuProbe(gpus))
    return probes
