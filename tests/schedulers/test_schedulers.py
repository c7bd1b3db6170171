"""The task facade: the interface and the defaults of the source document, on the real engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from headgate.schedulers import (
    BaseScheduler,
    DependencyError,
    DependencyScheduler,
    DistributedScheduler,
    PriorityScheduler,
    ResourceAllocationError,
    ResourceScheduler,
    SchedulerError,
    TaskPriority,
    TaskScheduler,
    TaskSchedulingError,
    TaskStatus,
    create_scheduler,
)
from headgate.schedulers.base import EngineScheduler

WITHIN = 20.0
BLOCK = """
scheduler:
  type: "task"  # task, resource, dependency, priority, distributed

  task_scheduler:
    max_workers: 4
    timeout: 300
    retry_attempts: 3

  resource_scheduler:
    cpu_cores: 4
    memory_gb: 8
    disk_gb: 100
    network_bandwidth: 1000

  dependency_scheduler:
    max_dependency_depth: 10
    dependency_timeout: 600

  priority_scheduler:
    default_priority: "normal"
    priority_boost: 1.2

  distributed_scheduler:
    nodes: ["node1", "node2", "node3"]
    load_balancing: "round_robin"
    failover: true
"""
S = TypeVar("S", bound=EngineScheduler)


class Make(Protocol):
    def __call__(self, kind: type[S], config: dict[str, Any] | None = None) -> S: ...


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[EngineScheduler] = []

    def build(kind: type[S], config: dict[str, Any] | None = None) -> S:
        scheduler = kind(config)
        made.append(scheduler)
        return scheduler

    yield build
    for scheduler in made:
        scheduler.close()


def test_the_vocabulary_is_that_of_the_document() -> None:
    assert {member.name: member.value for member in TaskPriority} == {
        "LOWEST": 1,
        "LOW": 2,
        "NORMAL": 3,
        "HIGH": 4,
        "HIGHEST": 5,
    }
    assert [member.value for member in TaskStatus] == ["pending", "running", "completed", "failed", "cancelled"]
    assert issubclass(TaskScheduler, BaseScheduler)
    for kind in (TaskSchedulingError, ResourceAllocationError, DependencyError):
        assert issubclass(kind, SchedulerError)


def test_a_task_waits_until_it_is_executed_and_its_handler_gets_the_dictionary(make: Make) -> None:
    scheduler = make(TaskScheduler, {"max_workers": 2})
    given: list[dict[str, Any]] = []

    @scheduler.handler("proof_verification")
    def verify(task: dict[str, Any]) -> dict[str, Any]:
        given.append(task)
        return {"valid": True}

    task_id = scheduler.schedule_task(
        {"name": "p", "type": "proof_verification", "priority": TaskPriority.HIGH, "config": {"proof": 17}}
    )
    assert scheduler.get_task_status(task_id) is TaskStatus.PENDING
    assert scheduler.execute_task(task_id) is True
    assert scheduler.wait(task_id, WITHIN) is TaskStatus.COMPLETED
    assert (given[0]["id"], given[0]["config"], given[0]["priority"]) == (task_id, {"proof": 17}, TaskPriority.HIGH)
    record = scheduler.tasks[task_id]
    assert (record["result"], record["error"], record["status"]) == ({"valid": True}, None, TaskStatus.COMPLETED)
    assert record["completed_at"] >= record["started_at"] >= record["created_at"]
    assert scheduler.execute_task(task_id) is False


def test_unknown_tasks_are_failed_and_nothing_can_be_done_with_them(make: Make) -> None:
    scheduler = make(TaskScheduler)
    assert scheduler.get_task_status("nobody") is TaskStatus.FAILED
    assert scheduler.execute_task("nobody") is False
    assert scheduler.cancel_task("nobody") is False


def test_a_handler_that_raises_fails_the_task_with_its_message(make: Make) -> None:
    scheduler = make(TaskScheduler)

    @scheduler.handler("generic")
    def breaks(task: dict[str, Any]) -> None:
        raise ValueError("broken")

    task_id = scheduler.schedule_task({"type": "generic"})
    assert scheduler.execute_task(task_id)
    assert scheduler.wait(task_id, WITHIN) is TaskStatus.FAILED
    assert scheduler.tasks[task_id]["error"] == "broken"


def test_a_type_that_means_something_needs_its_handler_and_others_fall_back_to_the_generic_one(make: Make) -> None:
    scheduler = make(TaskScheduler)
    specific = scheduler.schedule_task({"type": "capability_check"})
    other = scheduler.schedule_task({"type": "anything"})
    assert scheduler.execute_task(specific)
    assert scheduler.execute_task(other)
    assert scheduler.wait(specific, WITHIN) is TaskStatus.FAILED
    assert "no handler" in scheduler.tasks[specific]["error"]
    assert scheduler.wait(other, WITHIN) is TaskStatus.COMPLETED


def test_a_running_task_can_be_cancelled_and_an_ended_one_cannot(make: Make) -> None:
    scheduler = make(TaskScheduler)
    began, release = threading.Event(), threading.Event()

    @scheduler.handler("generic")
    def waits(task: dict[str, Any]) -> None:
        began.set()
        release.wait(WITHIN)

    running, waiting = scheduler.schedule_task({}), scheduler.schedule_task({})
    assert scheduler.execute_task(running)
    assert began.wait(WITHIN)
    assert scheduler.get_task_status(running) is TaskStatus.RUNNING
    assert scheduler.cancel_task(running) is True
    assert scheduler.cancel_task(waiting) is True
    release.set()
    assert scheduler.get_task_status(running) is TaskStatus.CANCELLED
    assert scheduler.get_task_status(waiting) is TaskStatus.CANCELLED
    assert scheduler.cancel_task(running) is False


def test_retry_attempts_are_made(make: Make) -> None:
    scheduler = make(TaskScheduler, {"retry_attempts": 1})
    calls: list[int] = []

    @scheduler.handler("generic")
    def second_time(task: dict[str, Any]) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("not yet")
        return "done"

    task_id = scheduler.schedule_task({})
    assert scheduler.execute_task(task_id)
    assert scheduler.wait(task_id, WITHIN) is TaskStatus.COMPLETED
    assert len(calls) == 2


@pytest.mark.parametrize("task", [{"priority": 9}, {"priority": "urgent"}, {"config": {"x": object()}}])
def test_tasks_that_make_no_sense_are_refused(make: Make, task: dict[str, Any]) -> None:
    scheduler = make(TaskScheduler)
    with pytest.raises(TaskSchedulingError):
        scheduler.schedule_task(task)
    assert scheduler.tasks == {}


def test_a_task_must_wait_for_its_dependencies(make: Make) -> None:
    scheduler = make(TaskScheduler)
    first = scheduler.schedule_task({"name": "first"})
    second = scheduler.schedule_task({"name": "second", "dependencies": [first]})
    assert scheduler.execute_task(second) is False
    assert scheduler.execute_task(first) is True
    assert scheduler.wait(first, WITHIN) is TaskStatus.COMPLETED
    assert scheduler.execute_task(second) is True
    assert scheduler.wait(second, WITHIN) is TaskStatus.COMPLETED


# -- resources ----------------------------------------------------------------------------------------------------


def test_resources_are_promised_at_scheduling_and_come_back_at_the_end(make: Make) -> None:
    scheduler = make(ResourceScheduler, {"cpu_cores": 4, "memory_gb": 8})
    assert scheduler.resource_pools == {"cpu": 4, "memory": 8, "disk": 100, "network": 1000}
    first = scheduler.schedule_task({"resources": {"cpu": 3, "memory": 4}})
    assert scheduler.allocated_resources == {"cpu": {first: 3}, "memory": {first: 4}}
    with pytest.raises(ResourceAllocationError, match="cpu needs 2, 1 is free"):
        scheduler.schedule_task({"resources": {"cpu": 2}})
    with pytest.raises(ValueError, match="there is no resource 'gold'"):
        scheduler.schedule_task({"resources": {"gold": 1}})
    assert scheduler.execute_task(first)
    assert scheduler.wait(first, WITHIN) is TaskStatus.COMPLETED
    assert scheduler.allocated_resources == {}
    assert scheduler.schedule_task({"resources": {"cpu": 4}})


# -- dependencies -------------------------------------------------------------------------------------------------


def test_completing_a_task_makes_those_ready_that_waited_for_it(make: Make) -> None:
    scheduler = make(DependencyScheduler)
    root = scheduler.schedule_task({"name": "root"})
    left = scheduler.schedule_task({"name": "left", "dependencies": [root]})
    right = scheduler.schedule_task({"name": "right", "dependencies": [root]})
    last = scheduler.schedule_task({"name": "last", "dependencies": [left, right]})
    assert scheduler.get_ready_tasks() == [root]
    assert scheduler.mark_task_completed(root) is True
    assert scheduler.get_task_status(root) is TaskStatus.COMPLETED
    assert scheduler.get_ready_tasks() == [left, right]
    assert scheduler.mark_task_completed(last) is False
    assert scheduler.mark_task_completed(left)
    assert scheduler.execute_task(right)
    assert scheduler.wait(right, WITHIN) is TaskStatus.COMPLETED
    assert scheduler.get_ready_tasks() == [last]


def test_unknown_dependencies_and_chains_that_are_too_deep_are_refused(make: Make) -> None:
    scheduler = make(DependencyScheduler, {"max_dependency_depth": 2})
    with pytest.raises(DependencyError):
        scheduler.schedule_task({"dependencies": ["nobody"]})
    with pytest.raises(DependencyError):
        scheduler.schedule_task({"dependencies": "nobody"})
    first = scheduler.schedule_task({})
    second = scheduler.schedule_task({"dependencies": [first]})
    third = scheduler.schedule_task({"dependencies": [second]})
    with pytest.raises(DependencyError):
        scheduler.schedule_task({"dependencies": [third]})


def test_a_task_that_waits_too_long_for_its_dependencies_has_failed(make: Make) -> None:
    scheduler = make(DependencyScheduler, {"dependency_timeout": 0})
    first = scheduler.schedule_task({})
    second = scheduler.schedule_task({"dependencies": [first]})
    threading.Event().wait(0.01)
    assert scheduler.get_task_status(second) is TaskStatus.FAILED
    assert scheduler.get_task_status(first) is TaskStatus.PENDING


# -- priorities ---------------------------------------------------------------------------------------------------


def test_the_most_urgent_task_is_next_and_of_equals_the_first(make: Make) -> None:
    scheduler = make(PriorityScheduler, {"default_priority": "low"})
    low = scheduler.schedule_task({"name": "by default"})
    normal = scheduler.schedule_task({"priority": TaskPriority.NORMAL})
    first = scheduler.schedule_task({"priority": "highest"})
    second = scheduler.schedule_task({"priority": 5})
    gone = scheduler.schedule_task({"priority": 5})
    scheduler.cancel_task(gone)
    assert [scheduler.get_next_task() for _ in range(5)] == [first, second, normal, low, None]


def test_a_changed_priority_changes_the_order(make: Make) -> None:
    scheduler = make(PriorityScheduler)
    first, second = scheduler.schedule_task({}), scheduler.schedule_task({})
    assert scheduler.update_task_priority(second, TaskPriority.HIGHEST) is True
    assert scheduler.update_task_priority("nobody", TaskPriority.LOW) is False
    assert [scheduler.get_next_task(), scheduler.get_next_task()] == [second, first]
    assert scheduler.tasks[second]["priority"] is TaskPriority.HIGHEST


# -- nodes --------------------------------------------------------------------------------------------------------


def test_tasks_go_round_the_nodes_and_move_when_one_is_gone(make: Make) -> None:
    scheduler = make(DistributedScheduler, {"nodes": ["a", "b"], "load_balancing": "round_robin", "failover": True})
    ids = [scheduler.schedule_task({"name": str(number)}) for number in range(4)]
    assert [scheduler.node_of(task_id) for task_id in ids] == ["a", "b", "a", "b"]
    assert scheduler.fail_node("a") == [ids[0], ids[2]]
    assert {scheduler.node_of(task_id) for task_id in ids} == {"b"}
    for task_id in ids:
        assert scheduler.execute_task(task_id)
        assert scheduler.wait(task_id, WITHIN) is TaskStatus.COMPLETED


def test_the_least_loaded_node_is_chosen(make: Make) -> None:
    scheduler = make(DistributedScheduler, {"nodes": ["a", "b"], "load_balancing": "least_loaded"})
    first, second = scheduler.schedule_task({}), scheduler.schedule_task({})
    assert {scheduler.node_of(first), scheduler.node_of(second)} == {"a", "b"}
    scheduler.cancel_task(second)
    assert scheduler.node_of(scheduler.schedule_task({})) == scheduler.node_of(second)


# -- configuration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("task", TaskScheduler),
        ("resource", ResourceScheduler),
        ("dependency", DependencyScheduler),
        ("priority", PriorityScheduler),
        ("distributed", DistributedScheduler),
    ],
)
def test_the_block_of_the_document_is_accepted_as_it_stands(kind: str, made: type, tmp_path: Path) -> None:
    path = tmp_path / "headgate.yaml"
    path.write_text(BLOCK.replace('type: "task"', f'type: "{kind}"'))
    with create_scheduler(path) as scheduler:
        assert type(scheduler) is made
        task_id = scheduler.schedule_task({"name": "t"})
        assert scheduler.execute_task(task_id)
        assert scheduler.wait(task_id, WITHIN) is TaskStatus.COMPLETED


def test_a_scheduler_is_made_from_a_dictionary() -> None:
    with create_scheduler({"scheduler": {"type": "task", "task_scheduler": {"max_workers": 2}}}) as scheduler:
        assert scheduler.slots == 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"scheduler": {"type": "tusk"}}, "did you mean 'task'"),
        ({"scheduler": {"task_schedular": {}}}, "did you mean 'task_scheduler'"),
        ({"scheduler": 3}, "must be a mapping"),
        ("no/such/file.yaml", "cannot be read"),
        ({"type": "distributed", "distributed_scheduler": {"load_balancing": "magic"}}, "round_robin"),
        ({"type": "task", "task_scheduler": {"max_workers": 0}}, "max_workers"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(config: Any, message: str) -> None:
    with pytest.raises(SchedulerError, match=message), create_scheduler(config) as scheduler:
        scheduler.schedule_task({})
