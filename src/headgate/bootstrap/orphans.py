"""Nobody outlives the family: a child asks the kernel for a signal when its parent dies."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with(parent: int, with_signal: signal.Signals = signal.SIGTERM) -> bool:
    """Have this process get a signal when the thread that started it ends; false if the parent is gone already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    return os.getppid() == parent  # it may have died before the kernel knew
