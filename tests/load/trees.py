"""Files of a kernel, laid out in a temporary folder as /proc and /sys/fs/cgroup are."""

from __future__ import annotations

from pathlib import Path

GROUP = "/docker/abc"


def write(root: Path, path: str, text: str) -> Path:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def version2(root: Path, group: str = GROUP, mounted: str = "/") -> Path:
    """A version 2 hierarchy with this process in `group`; returns the folder of the group."""
    write(root, "proc/self/cgroup", f"0::{group}\n")
    write(root, "proc/self/mountinfo", f"30 23 0:26 {mounted} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n")
    write(root, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
    below = group if mounted == "/" else ""
    return root / "sys/fs/cgroup" / below.strip("/")


def limit2(folder: Path, *, cpu: str = "max 100000", memory: str = "max", used: int = 0, droppable: int = 0) -> None:
    """The files of one level of version 2."""
    write(folder, "cpu.max", f"{cpu}\n")
    usage2(folder, 0.0)
    write(folder, "memory.max", f"{memory}\n")
    write(folder, "memory.high", "max\n")
    write(folder, "memory.current", f"{used}\n")
    write(folder, "memory.stat", f"anon 5\ninactive_file {droppable}\nactive_file 7\n")


def usage2(folder: Path, seconds: float, periods: int = 0, throttled: int = 0) -> None:
    text = f"usage_usec {round(seconds * 1e6)}\nuser_usec 0\nnr_periods {periods}\nnr_throttled {throttled}\n"
    write(folder, "cpu.stat", text)


def version1(root: Path, group: str = GROUP) -> dict[str, Path]:
    """Version 1 hierarchies of cpu, cpuacct and memory; returns the folders of the group."""
    names = ("cpu", "cpuacct", "memory")
    write(root, "proc/self/cgroup", "".join(f"{n}:{name}:{group}\n" for n, name in enumerate(names, 2)))
    lines = [f"3{n} 25 0:2{n} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}" for n, name in enumerate(names)]
    write(root, "proc/self/mountinfo", "\n".join(lines) + "\n")
    return {name: root / "sys/fs/cgroup" / name / group.strip("/") for name in names}


def limit1(
    folders: dict[str, Path], *, quota: int = -1, memory: int = 1 << 63, used: int = 0, droppable: int = 0
) -> None:
    """The files of one level of version 1."""
    write(folders["cpu"], "cpu.cfs_quota_us", f"{quota}\n")
    write(folders["cpu"], "cpu.cfs_period_us", "100000\n")
    write(folders["cpu"], "cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")
    write(folders["cpuacct"], "cpuacct.usage", "0\n")
    write(folders["memory"], "memory.limit_in_bytes", f"{memory}\n")
    write(folders["memory"], "memory.usage_in_bytes", f"{used}\n")
    write(folders["memory"], "memory.stat", f"cache 1\ntotal_inactive_file {droppable}\n")


def pressure(folder: Path, kind: str, total: int, average: float = 0.0) -> Path:
    rest = "avg60=0.00 avg300=0.00"
    return write(folder, kind, f"some avg10={average:.2f} {rest} total={total}\nfull avg10=0.00 {rest} total=0\n")
