"""The benchmark of the core does the work that it says it measures. No test looks at a time."""

import pytest

from bench import bench_core
from bench.core_world import MANY_KINDS, ONE_KIND, World
from headgate.core import verify
from headgate.core.bucket import shape_key
from headgate.core.job import JobKind


def kinds_in_the_queue(world: World) -> list[JobKind]:
    return sorted((job.kind.of for job in world.state.ready), key=repr)


def test_the_mixed_case_is_what_its_title_says() -> None:
    assert len(MANY_KINDS) == 24 * 4 * 10
    assert len({shape_key(kind) for kind in MANY_KINDS}) == 24
    assert len({kind.job_class for kind in MANY_KINDS}) == 4
    assert len({kind.tenant for kind in MANY_KINDS}) == 10


@pytest.mark.parametrize("kinds", [ONE_KIND, MANY_KINDS], ids=["one kind", "many kinds"])
def test_a_round_leaves_the_queue_as_it_was(kinds: tuple[JobKind, ...]) -> None:
    world = World(kinds).fill(500)
    before = kinds_in_the_queue(world)
    bench_core.one_round(world, {})
    assert kinds_in_the_queue(world) == before
    verify(world.state)


@pytest.mark.parametrize("kinds", [ONE_KIND, MANY_KINDS], ids=["one kind", "many kinds"])
def test_a_full_cluster_stays_full(kinds: tuple[JobKind, ...]) -> None:
    world = World(kinds).fill(500)
    world.make_tight()
    held = len(world.held)
    assert held > 30
    world.turn_over(50)
    assert world.grant() is None
    assert len(world.held) > 30
    assert world.state.depth + len(world.held) == 500
    verify(world.state)


def test_the_jobs_measured_have_ids_and_payloads_of_their_own() -> None:
    jobs = World(ONE_KIND).some(3)
    assert {len(job.id) for job in jobs} == {26}
    assert {len(job.spec.payload) for job in jobs} == {100}
    assert len({job.spec.payload for job in jobs}) == 3


def test_it_prints_every_operation_with_its_goal(capsys: pytest.CaptureFixture[str]) -> None:
    runs = {name: [0.001, 0.002] for name in bench_core.OPERATIONS}
    bench_core.show("a title", (10, 1_000), [runs, runs], 700.0)
    printed = capsys.readouterr().out
    assert all(label in printed for label in bench_core.OPERATIONS.values())
    assert "<= 600 B: MISSED" in printed
    assert ">= 0.8 x: met" in printed
