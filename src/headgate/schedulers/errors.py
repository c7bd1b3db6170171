"""What schedulers raise.

SchedulerError
+- TaskSchedulingError       the task itself is wrong (a ValueError too)
+- ResourceAllocationError   there is not enough of a resource (a ValueError too)
+- DependencyError           unknown, circular or too deep
"""

from __future__ import annotations

from headgate.core.errors import HeadgateError


class SchedulerError(HeadgateError):
    """The scheduler cannot do this."""


class TaskSchedulingError(SchedulerError, ValueError):
    """The task cannot be scheduled."""


class ResourceAllocationError(SchedulerError, ValueError):
    """Insufficient resources for task."""


class DependencyError(SchedulerError):
    """The dependencies of the task cannot be satisfied."""
