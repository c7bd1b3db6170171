"""What can be wrong with a policy, beside what its diagnostics say."""

from __future__ import annotations

from headgate.core.errors import Conflict, InvalidInput, NotFound


class InvalidPolicy(InvalidInput):
    """The policy did not pass its checks."""


class PolicyNotFound(NotFound):
    """There is no such policy version."""


class PolicyForbidden(Conflict):
    """The mode does not allow user policies."""


class PolicyMoved(Conflict):
    """Another version became active meanwhile."""
