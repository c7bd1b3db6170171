"""The task facade: schedulers of task dictionaries, thin over the same engine as everything else."""

from headgate.schedulers.base import BaseScheduler
from headgate.schedulers.config import create_scheduler
from headgate.schedulers.dependency import DependencyScheduler
from headgate.schedulers.distributed import DistributedScheduler
from headgate.schedulers.errors import DependencyError, ResourceAllocationError, SchedulerError, TaskSchedulingError
from headgate.schedulers.priority import PriorityScheduler
from headgate.schedulers.resource import ResourceScheduler
from headgate.schedulers.task import TaskScheduler
from headgate.schedulers.vocabulary import TaskPriority, TaskStatus

__all__ = [
    "BaseScheduler",
    "DependencyError",
    "DependencyScheduler",
    "DistributedScheduler",
    "PriorityScheduler",
    "ResourceAllocationError",
    "ResourceScheduler",
    "SchedulerError",
    "TaskPriority",
    "TaskScheduler",
    "TaskSchedulingError",
    "TaskStatus",
    "create_scheduler",
]
