"""Tasks that need resources: what is promised at scheduling is there at execution, and comes back at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.core.errors import InvalidInput
from headgate.core.quantities import amount, plain
from headgate.schedulers.base import EngineScheduler, Task
from headgate.schedulers.errors import ResourceAllocationError
from headgate.worker.runtime import Runtime

_POOLS = {
    "cpu": ("cpu_cores", 4),
    "memory": ("memory_gb", 8),
    "disk": ("disk_gb", 100),
    "network": ("network_bandwidth", 1000),
}


class ResourceScheduler(EngineScheduler):
    """Configuration: `cpu_cores` (4), `memory_gb` (8), `disk_gb` (100), `network_bandwidth` (1000), `max_workers`."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self.resource_pools = {name: _number(self.config, key, default) for name, (key, default) in _POOLS.items()}
        self.resources = self.resource_pools

    @property
    def allocated_resources(self) -> dict[str, dict[str, float]]:
        """What tasks that have not ended hold, by resource and task."""
        held: dict[str, dict[str, float]] = {}
        for task_id, job_id in list(self._jobs.items()):
            info = self._app.get(job_id).info()
            if info.ended_at is None:
                for name, value in info.resources.items():
                    held.setdefault(name, {})[task_id] = value
        return held

    def schedule_task(self, task: Task) -> str:
        """Take in a task if what it needs is free; `ResourceAllocationError` otherwise."""
        needed = dict(task).get("resources", {})
        with self._lock:
            self._check(needed)
            return super().schedule_task(task)

    def _check(self, needed: Any) -> None:
        if not isinstance(needed, Mapping):
            raise ResourceAllocationError("resources: must be a mapping of amounts", field="resources")
        held = self.allocated_resources
        for name, value in needed.items():
            if name not in self.resource_pools:
                raise ResourceAllocationError(f"there is no resource {name!r}", resource=name)
            free = self.resource_pools[name] - sum(held.get(name, {}).values())
            if _amount(value, name) > free:
                text = f"insufficient resources for task: {name} needs {plain(value)}, {plain(free)} is free"
                raise ResourceAllocationError(text, resource=name)

    def _fields(self, task: Task) -> dict[str, Any]:
        return {"resources": task.get("resources", {})}

    def _start_workers(self) -> list[Runtime]:
        return [self._app.worker(slots=self.slots, types=["task"], resources=self.resource_pools).start()]


def _number(config: Mapping[str, Any], key: str, default: float) -> float:
    return _amount(config.get(key, default), key)


def _amount(value: Any, field: str) -> float:
    try:
        return amount(value, field)
    except InvalidInput as error:
        raise ResourceAllocationError(str(error), field=field) from error
