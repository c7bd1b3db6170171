"""Tasks that wait for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.core.settings import Settings
from headgate.schedulers.base import EngineScheduler
from headgate.schedulers.vocabulary import TaskStatus


class DependencyScheduler(EngineScheduler):
    """Configuration: `max_dependency_depth` (10), `dependency_timeout` in seconds (none), `max_workers` (4).

    A task whose dependencies take longer than the timeout fails.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._late: set[str] = set()

    def _settings(self) -> Settings:
        depth = self._whole("max_dependency_depth", 10, 1)
        return Settings(total_units=1_000_000, preemption=False, max_dependency_depth=depth)

    def get_task_status(self, task_id: str) -> TaskStatus:
        """Where a task is; one that waited too long for its dependencies has failed."""
        self._give_up()
        return TaskStatus.FAILED if task_id in self._late else super().get_task_status(task_id)

    def _give_up(self) -> None:
        """Fail what has waited for its dependencies longer than it may."""
        patience = self.config.get("dependency_timeout")
        if patience is None:
            return
        now = self._app.status().now
        for task_id, info in self._pending():
            if info.state == "blocked" and now - info.created_at > patience:
                self._late.add(task_id)
                self._app.get(info.id).cancel(f"its dependencies took longer than {patience} s")

    def get_ready_tasks(self) -> list[str]:
        """Pending tasks whose dependencies are all completed, in the order they were scheduled."""
        self._give_up()
        return [task_id for task_id, info in self._pending() if info.state == "queued"]

    def mark_task_completed(self, task_id: str) -> bool:
        """A task was done elsewhere: it counts as completed, and those that waited for it become ready."""
        handle = self._find(task_id)
        if handle is None or handle.state != "queued":
            return False
        self._marked.add(task_id)
        self._patch(handle.id, not_before=None)
        return self.wait(task_id) is TaskStatus.COMPLETED
