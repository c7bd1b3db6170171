"""Who waits for whom: refusals at the door, unlocking, failing, and the sizes that must stay linear."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core import verify
from headgate.core.errors import DependencyCycle, DependencyError, DependencyTooDeep, InvalidJob, UnknownDependency
from headgate.core.graph import Graph
from headgate.core.job import JobSpec
from headgate.core.states import JobState
from headgate.testing import Harness, job, snapshot, worker


@pytest.fixture
def h() -> Harness:
    harness = Harness()
    harness.join(worker("w", slots=100))
    return harness


def finish(h: Harness, *names: str) -> None:
    for name in names:
        h.grant(name, "w")
        h.run(name)


def fail(h: Harness, name: str) -> None:
    h.grant(name, "w")
    h.start(name)
    h.fail(name)


# -- the door ------------------------------------------------------------------------------------------------------


def refused(h: Harness, error: type[Exception], jobs: dict[str, list[str]]) -> Any:
    before = snapshot(h.state)
    bulk = tuple(c.NewJob(name, job(name, after=after)) for name, after in jobs.items())
    with pytest.raises(error) as caught:
        h.tell(c.Submit(bulk))
    assert snapshot(h.state) == before
    assert isinstance(caught.value, InvalidJob | DependencyError)
    assert caught.value.field == "dependencies"
    return caught.value


def test_an_unknown_dependency_is_refused_and_named(h: Harness) -> None:
    assert refused(h, UnknownDependency, {"a": ["nobody"]}).dependency == "nobody"
    assert refused(h, UnknownDependency, {"ok": [], "a": ["ok", "nobody"]}).dependency == "nobody"


def test_a_job_that_depends_on_itself_is_refused(h: Harness) -> None:
    assert refused(h, InvalidJob, {"a": ["a"]}).job_id == "a"


@pytest.mark.parametrize("length", [2, 3, 50])
def test_a_circle_in_a_bulk_is_refused(h: Harness, length: int) -> None:
    circle = {f"j{n}": [f"j{(n + 1) % length}"] for n in range(length)}
    refused(h, DependencyCycle, circle)
    refused(h, DependencyCycle, {"first": [], **circle, "last": ["j0"]})


def test_a_chain_longer_than_allowed_is_refused_in_a_bulk_and_one_by_one() -> None:
    h = Harness(max_dependency_depth=5)
    chain = {"j0": [], **{f"j{n}": [f"j{n - 1}"] for n in range(1, 7)}}
    assert refused(h, DependencyTooDeep, chain).limit == 5
    h.submit(job("j0"))
    for n in range(1, 6):
        h.submit(job(f"j{n}", after=[f"j{n - 1}"]))
    refused(h, DependencyTooDeep, {"j6": ["j5"]})


def test_a_bulk_may_name_its_jobs_in_any_order(h: Harness) -> None:
    h.submit_all([job("c", after=["b"]), job("b", after=["a"]), job("a")])
    for name in ("a", "b", "c"):
        assert h.queue() == [name]
        finish(h, name)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12))
def test_a_bulk_is_taken_exactly_where_it_has_no_circle(edges: list[tuple[int, int]]) -> None:
    after: dict[int, set[int]] = {n: set() for n in range(8)}
    for child, parent in edges:
        after[child].add(parent)
    jobs = tuple(c.NewJob(str(n), job(after=[str(p) for p in sorted(after[n])])) for n in after)
    h = Harness()
    if _has_circle(after):
        with pytest.raises((DependencyCycle, InvalidJob)):
            h.tell(c.Submit(jobs))
        assert not h.state.jobs
    else:
        h.tell(c.Submit(jobs))
        assert {job.id for job in h.state.jobs.values() if job.state is JobState.QUEUED} == {
            str(n) for n in after if not after[n]
        }


def _has_circle(after: dict[int, set[int]]) -> bool:
    left = {n: set(parents) for n, parents in after.items()}
    while free := [n for n, parents in left.items() if not parents]:
        for n in free:
            del left[n]
        for parents in left.values():
            parents.difference_update(free)
    return bool(left)


# -- unlocking -----------------------------------------------------------------------------------------------------


def test_a_diamond_opens_its_last_job_after_both_sides(h: Harness) -> None:
    h.submit_all([job("a"), job("b", after=["a"]), job("c", after=["a"]), job("d", after=["b", "c"])])
    assert h.queue() == ["a"]
    finish(h, "a")
    assert h.queue() == ["b", "c"]
    finish(h, "b")
    h.is_("blocked", "d")
    finish(h, "c")
    assert h.queue() == ["d"]


def test_dependencies_that_have_ended_already_are_not_waited_for(h: Harness) -> None:
    h.submit_all([job("good"), job("open")])
    finish(h, "good")
    h.submit(job("a", after=["good"]))
    h.is_("queued", "a")
    h.submit(job("b", after=["good", "open"]))
    h.is_("blocked", "b")
    assert h.state.graph.pending("b") == {"open"}


def test_jobs_the_core_has_forgotten_count_as_they_ended(h: Harness) -> None:
    ended = {"old": JobState.COMPLETED, "bad": JobState.EXPIRED}
    h.submit_all([job("a", after=["old"])], finished=ended)
    h.is_("queued", "a")
    h.submit_all([job("b", after=["old", "bad"]), job("c", after=["b"])], finished=ended)
    h.is_("failed", "b", "c")
    h.submit_all([job("d", after=["bad"], on_dependency_failure="run")], finished=ended)
    h.is_("queued", "d")


def test_a_named_dependency_counts_once(h: Harness) -> None:
    h.submit(job("a"))
    h.submit(job("b", after=["a", "a"]))
    finish(h, "a")
    h.is_("queued", "b")


def test_unblocking_respects_the_time_of_the_job(h: Harness) -> None:
    h.submit(job("a"))
    h.submit(job("b", after=["a"], not_before=h.now / 1000 + 10))
    finish(h, "a")
    h.is_("queued", "b")
    assert h.queue() == []
    h.advance(10_000)
    assert h.queue() == ["b"]


# -- failing -------------------------------------------------------------------------------------------------------


def family() -> list[JobSpec]:
    return [
        job("a"),
        job("b", after=["a"]),
        job("c", after=["b"]),
        job("d", after=["a"], on_dependency_failure="run"),
        job("e", after=["c", "d"], on_dependency_failure="run"),
    ]


@pytest.mark.parametrize("end", ["fail", "cancel", "expire", "deadline"])
def test_a_bad_end_fails_the_dependents_and_theirs_unless_they_run_regardless(h: Harness, end: str) -> None:
    first, *others = family()
    h.submit(job("a", deadline=h.now / 1000 + 50) if end == "deadline" else first)
    h.submit_all(others)
    if end in ("fail", "expire"):
        h.grant("a", "w")
        h.start("a")
    {
        "fail": lambda: h.fail("a"),
        "cancel": lambda: h.cancel("a"),
        "expire": lambda: h.advance(40_000),
        "deadline": lambda: h.advance(50_000),
    }[end]()
    h.is_("failed", "b", "c")
    h.is_("queued", "d")
    h.is_("blocked", "e")
    assert [(event.id, event.dependency) for event in h.seen(e.DependencyFailed)] == [("b", "a"), ("c", "b")]
    h.tell(c.RegisterWorker(worker("w", slots=100)))
    finish(h, "d")
    h.is_("queued", "e")


def test_a_retry_leaves_the_dependents_waiting(h: Harness) -> None:
    h.submit_all([job("a", retry=2), job("b", after=["a"])])
    fail(h, "a")
    h.is_("blocked", "b")


def test_a_job_and_its_dependency_may_miss_their_deadlines_in_one_tick(h: Harness) -> None:
    soon = h.now / 1000 + 5
    h.submit_all([job("a", deadline=soon), job("b", after=["a"], deadline=soon), job("c", after=["b"], deadline=soon)])
    h.advance(5_000)
    h.is_("expired", "a")
    h.is_("failed", "b", "c")


def test_a_job_submitted_after_a_failed_one_fails_at_once_and_so_do_its_siblings(h: Harness) -> None:
    h.submit(job("a"))
    h.cancel("a")
    h.submit_all([job("b", after=["a"]), job("c", after=["b"]), job("d")])
    h.is_("failed", "b", "c")
    h.is_("queued", "d")


def test_cancelled_children_leave_their_siblings_waiting(h: Harness) -> None:
    h.submit_all([job("a"), *(job(f"c{n}", after=["a"]) for n in range(100))])
    for n in range(0, 100, 2):
        h.cancel(f"c{n}")
    finish(h, "a")
    assert h.queue() == [f"c{n}" for n in range(1, 100, 2)]


# -- sizes ---------------------------------------------------------------------------------------------------------


class CountingGraph(Graph):
    """A graph that counts how often an edge is touched."""

    __slots__ = ("touched",)

    def __init__(self) -> None:
        super().__init__()
        self.touched = 0

    def resolve(self, child: str, dependency: str) -> None:
        self.touched += 1
        super().resolve(child, dependency)

    def pending(self, job_id: str) -> set[str]:
        self.touched += 1
        return super().pending(job_id)


def large(edges: dict[str, list[str]]) -> tuple[Harness, CountingGraph]:
    h = Harness(careful=False, total_units=10**6)
    graph = h.state.graph = CountingGraph()
    h.join(worker("w"))
    kind = job().kind
    h.tell(c.Submit(tuple(c.NewJob(name, JobSpec(kind, name, dependencies=tuple(d))) for name, d in edges.items())))
    verify(h.state)
    return h, graph


def test_a_chain_of_ten_thousand_runs_through_and_each_end_touches_one_edge() -> None:
    length = 10_000
    h, graph = large({f"j{n}": [f"j{n - 1}"] if n else [] for n in range(length)})
    graph.touched = 0
    for n in range(length):
        assert h.cycle() == [f"j{n}"]
        h.run(f"j{n}")
    assert graph.touched <= 2 * length
    assert h.state.counts[JobState.COMPLETED] == length
    verify(h.state)


def test_a_chain_of_ten_thousand_fails_from_its_head() -> None:
    h, _ = large({f"j{n}": [f"j{n - 1}"] if n else [] for n in range(10_000)})
    h.cancel("j0")
    assert h.state.counts[JobState.FAILED] == 9_999
    verify(h.state)


def test_a_fan_out_of_a_hundred_thousand_opens_with_one_event_each() -> None:
    width = 100_000
    h, graph = large({"root": [], **{f"j{n}": ["root"] for n in range(width)}})
    h.cycle()
    graph.touched, before = 0, len(h.events)
    h.run("root")
    opened = Counter(type(event) for event in h.events[before:])
    assert opened == {e.JobStarted: 1, e.JobCompleted: 1, e.JobUnblocked: width}
    assert graph.touched <= 2 * width
    assert h.state.ready.size == width
    verify(h.state)


def test_a_fan_in_of_a_hundred_thousand_opens_after_the_last() -> None:
    width = 100_000
    h, graph = large({**{f"j{n}": [] for n in range(width)}, "last": [f"j{n}" for n in range(width)]})
    graph.touched = 0
    for n in range(width):
        h.is_("blocked", "last")
        _run_bare(h, f"j{n}")
    assert graph.touched <= 3 * width
    assert h.cycle() == ["last"]
    verify(h.state)


def _run_bare(h: Harness, name: str) -> None:
    """Grant, start, complete and nothing else."""
    assert h.cycle() == [name]
    h.run(name)
