"""Landlock: this process may touch no file, no TCP port, no foreign signal or abstract socket. A second wall
behind seccomp.
"""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE, _RESTRICT = 444, 446
# File rights by the version of the interface that brought them; everything that is handled and not granted is
# denied.
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}
_FS_BITS_NEWEST = 16
_NET_BITS, _SCOPE_BITS = 0b11, 0b11
_NET_SINCE, _SCOPE_SINCE = 4, 6


def rules(version: int) -> bytes:
    """The ruleset of this version: all rights handled, none granted."""
    attributes = [(1 << _FS_BITS.get(version, _FS_BITS_NEWEST)) - 1]
    if version >= _NET_SINCE:
        attributes.append(_NET_BITS)
    if version >= _SCOPE_SINCE:
        attributes.append(_SCOPE_BITS)
    return struct.pack(f"={len(attributes)}Q", *attributes)


def install(libc: ctypes.CDLL) -> str | None:
    """Restrict this process for good; returns why it could not be, or nothing. Needs no_new_privs."""
    version = libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if version < 1:
        return "the kernel has no landlock"
    data = rules(version)
    ruleset = libc.syscall(_CREATE, data, ctypes.c_size_t(len(data)), ctypes.c_uint(0))
    if ruleset < 0:
        return f"the kernel refused the rules (errno {ctypes.get_errno()})"
    refused = libc.syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0)) != 0
    os.close(ruleset)
    return f"the kernel refused the restriction (errno {ctypes.get_errno()})" if refused else None
