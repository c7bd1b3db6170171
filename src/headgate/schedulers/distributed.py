"""Tasks on several nodes: each node is a worker in a pool of its own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import msgspec

from headgate.schedulers.base import EngineScheduler, Task
from headgate.schedulers.errors import SchedulerError, TaskSchedulingError
from headgate.schedulers.vocabulary import TaskStatus
from headgate.worker.runtime import Runtime

BALANCING = ("round_robin", "least_loaded")


class DistributedScheduler(EngineScheduler):
    """Configuration: `nodes` (one), `load_balancing` ("round_robin" or "least_loaded"), `failover` (true)."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        nodes = self.config.get("nodes", ["node1"])
        if not isinstance(nodes, list | tuple) or not nodes or not all(isinstance(node, str) for node in nodes):
            raise TaskSchedulingError("nodes: must be a list of names", field="nodes")
        self.load_balancing = self.config.get("load_balancing", "round_robin")
        if self.load_balancing not in BALANCING:
            raise TaskSchedulingError(f"load_balancing: must be one of {', '.join(BALANCING)}", field="load_balancing")
        self.nodes: list[str] = list(dict.fromkeys(nodes))
        self._up = list(self.nodes)
        self._turns = cycle(self.nodes)
        self._by_node: dict[str, Runtime] = {}

    def node_of(self, task_id: str) -> str | None:
        """The node that a task is meant for."""
        handle = self._find(task_id)
        return None if handle is None else handle.info().pool

    def fail_node(self, node: str) -> list[str]:
        """A node is gone. With `failover` its tasks move to the others; the ids of those that did."""
        if node not in self._up:
            raise SchedulerError(f"there is no node {node!r} that is up", node=node)
        with self._lock:
            self._up.remove(node)
            runtime = self._by_node.pop(node, None)
            if runtime is not None:
                self._runtimes.remove(runtime)
                runtime.stop()
            if not self.config.get("failover", True) or not self._up:
                return []
            return [task_id for task_id in list(self._jobs) if self._move(task_id, node)]

    def _move(self, task_id: str, node: str) -> bool:
        handle = self._find(task_id)
        info = None if handle is None else handle.info()
        if handle is None or info is None or info.pool != node or info.ended_at is not None:
            return False
        handle.cancel("its node is gone")
        again = self._submit(msgspec.json.decode(info.payload))
        self._jobs[task_id] = again.id
        if info.not_before is None:
            self._patch(again.id, not_before=None)
        return True

    def _fields(self, task: Task) -> dict[str, Any]:  # noqa: ARG002 - any node will do for any task
        return {"pool": self._choose()}

    def _choose(self) -> str:
        if not self._up:
            raise SchedulerError("no node is up")
        if self.load_balancing == "round_robin":
            return next(node for node in self._turns if node in self._up)
        load = dict.fromkeys(self._up, 0)
        for task_id in self._jobs:
            node = self.node_of(task_id)
            if node in load and self.get_task_status(task_id) in (TaskStatus.PENDING, TaskStatus.RUNNING):
                load[node] += 1
        return min(self._up, key=lambda node: load[node])

    def _start_workers(self) -> list[Runtime]:
        for node in self._up:
            runtime = self._app.worker(worker_id=f"{node}-worker", pool=node, slots=self.slots, types=["task"])
            self._by_node[node] = runtime.start()
        return list(self._by_node.values())
