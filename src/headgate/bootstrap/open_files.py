"""How many files this process may open: every connection is one, and the usual limit is from another time."""

from __future__ import annotations

import contextlib
import resource

ENOUGH = 65_536
Limits = tuple[int, int]


def raise_limit() -> Limits:
    """Raise the soft limit as far as the hard one allows; what it was before, for processes that are started later.

    Not for them: programs that still use `select` cannot handle a file above 1023.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = before
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return before


def restore_limit(pid: int, before: Limits) -> None:
    """Give a child the limit that its parent started with."""
    with contextlib.suppress(ProcessLookupError):  # it ended at once, which its parent is told otherwise
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
