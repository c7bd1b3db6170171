"""The lease: a temporary permission to run, fenced by its token."""

from __future__ import annotations

import msgspec

from headgate.core.errors import InvalidInput
from headgate.core.quantities import Resources

_EPOCH_SHIFT = 40


class Lease(msgspec.Struct, gc=False):
    """A live lease. It holds units and resources until it ends; a job has at most one."""

    id: str
    job_id: str
    worker_id: str | None
    pool_id: str | None
    tenant: str
    units: int
    resources: Resources
    token: int
    granted_at: int
    expires_at: int
    last_heartbeat: int
    attempt: int
    ttl: int
    started_at: int | None = None
    timeout_at: int | None = None
    fence_at: int | None = None
    """Set when the lease is being preempted: the holder has until then to let go."""
    for_job: str | None = None
    """The job that room is being made for."""

    @property
    def due(self) -> int:
        """The next moment at which something must happen to this lease."""
        return min(at for at in (self.expires_at, self.timeout_at, self.fence_at) if at is not None)


def token_of(epoch: int, number: int) -> int:
    """Tokens only grow: the epoch of the store counts more than the number of the lease."""
    return epoch << _EPOCH_SHIFT | number


def lease_id(epoch: int, number: int) -> str:
    """The public name of a lease."""
    return f"{epoch}-{number}"


def number_of(token: int) -> int:
    """The lease number inside a token."""
    return token & ((1 << _EPOCH_SHIFT) - 1)


def epoch_of(token: int) -> int:
    """The epoch in which a token was given out."""
    return token >> _EPOCH_SHIFT


def check_token(token: object) -> int:
    """Refuse what cannot be a token before it is compared with one."""
    if isinstance(token, bool) or not isinstance(token, int):
        raise InvalidInput(f"must be a whole number, not {type(token).__name__}", field="token")
    return token
