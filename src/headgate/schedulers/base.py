"""The common interface, and the part that all schedulers share: task dictionaries become jobs of an embedded engine.

A scheduled task is a job whose time has not come. `execute_task` lets it come; the engine does the rest.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

import msgspec

from headgate.app import App
from headgate.client.handles import JobHandle
from headgate.core.errors import DependencyError as CoreDependencyError
from headgate.core.errors import IllegalTransition, InvalidInput
from headgate.core.settings import Settings
from headgate.schedulers.errors import DependencyError, TaskSchedulingError
from headgate.schedulers.vocabulary import TaskPriority, TaskStatus, priority_of, status_of
from headgate.worker.context import current_job
from headgate.worker.runtime import Runtime

Task = dict[str, Any]
H = TypeVar("H", bound=Callable[[Task], Any])
NEVER = 9_000_000_000.0
"""The year 2255: when a task that nobody executes would run."""
SPECIFIC = ("proof_verification", "capability_check", "data_processing")
"""Types that mean nothing without a handler of their own; others fall back to the generic one."""
_SOON = 1.0


class BaseScheduler(ABC):
    """What every scheduler can do."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config = dict(config or {})
        self.name = type(self).__name__
        self.resources: dict[str, Any] = {}

    @abstractmethod
    def schedule_task(self, task: Task) -> str:
        """Take in a task; its id."""

    @abstractmethod
    def execute_task(self, task_id: str) -> bool:
        """Let a scheduled task run; false if it is unknown or may not yet."""

    @abstractmethod
    def cancel_task(self, task_id: str) -> bool:
        """Cancel a task; false if it is unknown or over."""

    @abstractmethod
    def get_task_status(self, task_id: str) -> TaskStatus:
        """Where a task is; an unknown one is failed."""


class EngineScheduler(BaseScheduler):
    """A scheduler on an engine of its own, in memory unless the configuration has a `database`."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._handlers: dict[str, Callable[[Task], Any]] = {}
        self._jobs: dict[str, str] = {}
        self._marked: set[str] = set()
        self._begun: dict[str, threading.Event] = {}
        self._lock = threading.RLock()
        self._app = App(str(self.config.get("database", "memory://")), load=0, settings=self._settings())
        self._app.job("task")(self._perform)
        self._runtimes: list[Runtime] = []

    # -- for kinds of scheduler -----------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return self._whole("max_workers", 4, 1)

    def _settings(self) -> Settings:
        return Settings(total_units=1_000_000, preemption=False)

    def _fields(self, task: Task) -> dict[str, Any]:  # noqa: ARG002 - most kinds look at it
        """What this kind of scheduler adds to a job."""
        return {}

    def _start_workers(self) -> list[Runtime]:
        return [self._app.worker(slots=self.slots, types=["task"]).start()]

    # -- the interface --------------------------------------------------------------------------------------------

    def handler(self, task_type: str) -> Callable[[H], H]:
        """Register the function that runs tasks of a type: it is given the task dictionary."""

        def made(function: H) -> H:
            self._handlers[task_type] = function
            return function

        return made

    def schedule_task(self, task: Task) -> str:
        """Take in a task; its id. It waits until it is executed."""
        if not isinstance(task, dict):
            raise TaskSchedulingError(f"a task is a dictionary, not {type(task).__name__}")
        with self._lock:
            self._ensure_workers()
            handle = self._submit(task)
            self._jobs[handle.id] = handle.id
            self._begun[handle.id] = threading.Event()
            return handle.id

    def execute_task(self, task_id: str) -> bool:
        """Let a scheduled task run; false if it is unknown, waits for others, or has been executed before."""
        handle = self._find(task_id)
        if handle is None or handle.state != "queued":
            return False
        try:
            self._patch(handle.id, not_before=None)
        except IllegalTransition:
            return False
        if self._running() < self.slots:
            self._begun[task_id].wait(_SOON)
        return True

    def cancel_task(self, task_id: str) -> bool:
        """Cancel a task, also while it runs; false if it is unknown or over."""
        handle = self._find(task_id)
        return handle is not None and handle.cancel("cancelled by its scheduler")

    def get_task_status(self, task_id: str) -> TaskStatus:
        """Where a task is; an unknown one is failed."""
        handle = self._find(task_id)
        if handle is None:
            return TaskStatus.FAILED
        state = handle.state
        if state == "leased" and self._begun[task_id].is_set():  # the word that it has begun is on its way
            return TaskStatus.RUNNING
        return status_of(state)

    # -- beyond the interface -------------------------------------------------------------------------------------

    @property
    def tasks(self) -> dict[str, Task]:
        """The record of every task: what was scheduled and what became of it."""
        return {task_id: self._record(task_id) for task_id in list(self._jobs)}

    def wait(self, task_id: str, timeout: float | None = None) -> TaskStatus:
        """Wait for the end of a task; the status."""
        handle = self._find(task_id)
        return TaskStatus.FAILED if handle is None else status_of(handle.wait(timeout))

    def close(self) -> None:
        """Stop the workers and let go of the engine."""
        for runtime in self._runtimes:
            runtime.stop()
        self._runtimes = []
        self._app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _ensure_workers(self) -> None:
        if not self._runtimes:
            self._runtimes = self._start_workers()

    def _submit(self, task: Task) -> JobHandle:
        plain = {"name": "unnamed", "type": "generic", "config": {}, **task}
        priority = self._priority(task)
        try:
            return self._app.submit(
                name=str(plain["name"]) or "unnamed",
                type="task",
                payload=_jsonable({**plain, "priority": priority.value}),
                priority=priority.value,
                dependencies=[self._jobs.get(one, one) for one in _listed(plain.get("dependencies", ()))],
                not_before=NEVER,
                **self._retrying(),
                **self._fields(plain),
            )
        except CoreDependencyError as error:
            raise DependencyError(str(error)) from error
        except InvalidInput as error:
            raise TaskSchedulingError(str(error), field=error.field) from error

    def _retrying(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"retries": self._whole("retry_attempts", 0, 0)}
        if self.config.get("timeout") is not None:
            fields["timeout"] = self.config["timeout"]
        return fields

    def _priority(self, task: Task) -> TaskPriority:
        return priority_of(task.get("priority"))

    def _perform(self, payload: Task) -> Any:
        """In a worker: run a task by the handler of its type."""
        job_id = current_job().id
        task_id = next((known for known, job in list(self._jobs.items()) if job == job_id), job_id)
        if task_id in self._begun:
            self._begun[task_id].set()
        if task_id in self._marked:
            return None
        handler = self._handlers.get(payload["type"])
        if handler is None and payload["type"] not in SPECIFIC:
            handler = self._handlers.get("generic", lambda _: None)
        if handler is None:
            raise TaskSchedulingError(f"no handler is registered for tasks of type {payload['type']!r}")
        return handler({**payload, "id": task_id, "priority": TaskPriority(payload["priority"])})

    def _find(self, task_id: str) -> JobHandle | None:
        job_id = self._jobs.get(task_id)
        return None if job_id is None else self._app.get(job_id)

    def _patch(self, job_id: str, **changes: Any) -> None:
        self._app.patch(job_id, **changes)

    def _running(self) -> int:
        return self._app.status().jobs.get("running", 0)

    def _pending(self) -> Iterator[tuple[str, Any]]:
        for task_id, job_id in list(self._jobs.items()):
            info = self._app.get(job_id).info()
            if status_of(info.state) is TaskStatus.PENDING:
                yield task_id, info

    def _record(self, task_id: str) -> Task:
        info = self._app.get(self._jobs[task_id]).info()
        task: Task = msgspec.json.decode(info.payload)
        return {
            **task,
            "id": task_id,
            "priority": priority_of(info.priority),
            "status": status_of(info.state),
            "created_at": info.created_at,
            "scheduled_at": info.queued_at,
            "started_at": info.started_at,
            "completed_at": info.ended_at,
            "result": msgspec.json.decode(info.result),
            "error": None if info.error is None else info.error.message or info.error.code,
        }

    def _whole(self, name: str, default: int, least: int) -> int:
        value = self.config.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise TaskSchedulingError(f"{name}: must be a whole number of at least {least}", field=name)
        return value


def _listed(given: Any) -> list[str]:
    if isinstance(given, str) or not isinstance(given, list | tuple | set):
        raise DependencyError("dependencies: must be a list of task ids", field="dependencies")
    return list(given)


def _jsonable(task: Task) -> Task:
    try:
        read: Task = msgspec.json.decode(msgspec.json.encode(task))
    except (TypeError, ValueError) as error:
        raise TaskSchedulingError(f"a task must be JSON: {error}") from error
    return read
