"""A system-call filter written by hand: an allow-list for one process with one socket; anything else kills
the process.

A policy that somehow reached native code could compute, talk on its own socket and end: it has no file, no
process, no network.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from typing import NamedTuple

_LD_ABS, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_NR, _ARCH, _ARGS = 0, 4, 16
_MAP_ANONYMOUS = 0x20
_X32_BIT = 0x40000000


class Calls(NamedTuple):
    """System-call numbers of one architecture."""

    audit_arch: int
    plain: dict[str, int]
    on_socket: dict[str, int]
    mmap: int


# memory: LuaJIT's allocator and its compiler; time: budgets; ends: exit and the return from a signal handler
MACHINES = {
    "x86_64": Calls(
        0xC000003E,
        {
            "mprotect": 10, "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28,
            "futex": 202, "sched_yield": 24, "clock_gettime": 228, "getrandom": 318,
            "rt_sigreturn": 15, "restart_syscall": 219, "exit": 60, "exit_group": 231,
        },
        {"recvfrom": 45, "sendto": 44, "read": 0, "write": 1},
        9,
    ),
    "aarch64": Calls(
        0xC00000B7,
        {
            "mprotect": 226, "munmap": 215, "brk": 214, "mremap": 216, "madvise": 233,
            "futex": 98, "sched_yield": 124, "clock_gettime": 113, "getrandom": 278,
            "rt_sigreturn": 139, "restart_syscall": 128, "exit": 93, "exit_group": 94,
        },
        {"recvfrom": 207, "sendto": 206, "read": 63, "write": 64},
        222,
    ),
}  # fmt: skip


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def program(calls: Calls, fd: int) -> bytes:
    """The filter: architecture, plain calls, calls on the one socket, anonymous memory; else death."""
    allow, kill = _op(_RET, _ALLOW), _op(_RET, _KILL_PROCESS)
    ops = [_op(_LD_ABS, _ARCH), _op(_JEQ, calls.audit_arch, 1, 0), kill]
    ops += [_op(_LD_ABS, _NR), _op(_JGE, _X32_BIT, 0, 1), kill]
    for number in calls.plain.values():
        ops += [_op(_JEQ, number, 0, 1), allow]
    for number in calls.on_socket.values():
        ops += [_op(_JEQ, number, 0, 4), _op(_LD_ABS, _ARGS), _op(_JEQ, fd, 0, 1), allow, kill]
    flags, descriptor = _ARGS + 3 * 8, _ARGS + 4 * 8
    ops += [_op(_JEQ, calls.mmap, 0, 6), _op(_LD_ABS, flags), _op(_JSET, _MAP_ANONYMOUS, 0, 3)]
    ops += [_op(_LD_ABS, descriptor), _op(_JEQ, 0xFFFFFFFF, 0, 1), allow, kill]
    ops.append(kill)
    return b"".join(ops)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def supported() -> str | None:
    """Why this machine has no filter of ours, or nothing when it has."""
    machine = platform.machine()
    return None if machine in MACHINES else f"no system-call table for {machine}"


def install(libc: ctypes.CDLL, fd: int) -> str | None:
    """Install the filter for good; returns why it could not be, or nothing. Needs no_new_privs."""
    if (reason := supported()) is not None:
        return reason
    code = program(MACHINES[platform.machine()], fd)
    buffer = ctypes.create_string_buffer(code, len(code))
    wrapped = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    if libc.prctl(22, 2, ctypes.byref(wrapped), 0, 0) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        return f"the kernel refused the filter (errno {ctypes.get_errno()})"
    return None
