"""Takes away from this process all that a policy does not need, and says what the kernel could not take away.

Everything has to be imported before: afterwards no file can be opened. The order matters: descriptors and
environment first, privileges, limits, then the walls of the kernel, seccomp last since it forbids the calls
that set up the others.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

import msgspec

from headgate.policy import landlock, seccomp

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_NOBODY = 65534


class Limits(msgspec.Struct, frozen=True):
    """What the process may still use: address space beyond what it has now, and processor time."""

    extra_bytes: int = 256 << 20
    cpu_s: int = 600
    enabled: bool = True


class Lockdown(msgspec.Struct):
    """What was taken away. `reasons` says why something was not."""

    rlimits: bool = False
    no_new_privs: bool = False
    undumpable: bool = False
    unprivileged: bool = False
    landlock: bool = False
    seccomp: bool = False
    reasons: dict[str, str] = msgspec.field(default_factory=dict)


def apply(fd: int, limits: Limits) -> Lockdown:
    """Lock this process down around one socket."""
    status = Lockdown()
    os.environ.clear()
    _close_others(fd)
    if not limits.enabled:
        status.reasons = dict.fromkeys(("seccomp", "landlock", "rlimits"), "switched off by a setting")
        return status
    space = _address_space() + limits.extra_bytes
    _drop_privileges(status)
    linux = sys.platform.startswith("linux")
    if linux:
        _refuse_files(status)
    else:
        status.reasons |= dict.fromkeys(("seccomp", "landlock", "no_new_privs"), f"not on {sys.platform}")
    _limit(status, space, limits.cpu_s)
    if linux:
        _note(status, "seccomp", seccomp.install(_libc(), fd))
    return status


def _close_others(fd: int) -> None:
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if highest == resource.RLIM_INFINITY:
        highest = 1 << 16
    os.closerange(0, fd)
    os.closerange(fd + 1, highest)


def _drop_privileges(status: Lockdown) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    status.unprivileged = os.geteuid() != 0


def _address_space() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30


def _limit(status: Lockdown, space: int, cpu_s: int) -> None:
    wanted = {
        resource.RLIMIT_AS: space,
        resource.RLIMIT_DATA: space,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_NOFILE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for name, value in wanted.items():
        try:
            resource.setrlimit(name, (value, value))
        except (OSError, ValueError) as error:
            status.reasons["rlimits"] = str(error)
            return
    status.rlimits = True


def _refuse_files(status: Lockdown) -> None:
    libc = _libc()
    # Asked for after the change of user, which would clear it.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    status.undumpable = libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    refused = libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
    _note(status, "no_new_privs", f"errno {ctypes.get_errno()}" if refused else None)
    _note(status, "landlock", landlock.install(libc))


def _note(status: Lockdown, wall: str, reason: str | None) -> None:
    setattr(status, wall, reason is None)
    if reason is not None:
        status.reasons[wall] = reason


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
