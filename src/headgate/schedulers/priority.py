"""Tasks in the order of their priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.core.errors import IllegalTransition
from headgate.core.settings import Settings
from headgate.schedulers.base import EngineScheduler, Task
from headgate.schedulers.errors import TaskSchedulingError
from headgate.schedulers.vocabulary import TaskPriority, priority_of

_AGEING = 3_600_000


class PriorityScheduler(EngineScheduler):
    """Configuration: `default_priority` ("normal"), `priority_boost` (1.0), `max_workers` (4).

    Waiting lifts a task by one class after an hour; a boost of 1.2 makes that 1.2 times as fast.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._taken: set[str] = set()
        self._default = priority_of(self.config.get("default_priority"))

    def _settings(self) -> Settings:
        boost = self.config.get("priority_boost", 1.0)
        if isinstance(boost, bool) or not isinstance(boost, int | float) or not 0 < boost <= 1_000:
            raise TaskSchedulingError("priority_boost: must be a number greater than 0", field="priority_boost")
        return Settings(total_units=1_000_000, preemption=False, ageing=max(1, round(_AGEING / boost)))

    def _priority(self, task: Task) -> TaskPriority:
        return priority_of(task.get("priority"), self._default)

    def get_next_task(self) -> str | None:
        """The most urgent pending task that was not handed out yet; of equals the one scheduled first."""
        waiting = [(task_id, info) for task_id, info in self._pending() if task_id not in self._taken]
        if not waiting:
            return None
        task_id, _ = max(waiting, key=lambda entry: priority_of(entry[1].priority).value)
        self._taken.add(task_id)
        return task_id

    def update_task_priority(self, task_id: str, new_priority: TaskPriority) -> bool:
        """Change the priority of a task that has not begun; it is handed out anew."""
        handle = self._find(task_id)
        if handle is None:
            return False
        try:
            self._patch(handle.id, priority=priority_of(new_priority).value)
        except IllegalTransition:
            return False
        self._taken.discard(task_id)
        return True
