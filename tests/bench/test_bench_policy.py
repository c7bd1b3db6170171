"""The benchmark of policies does the work that it says it measures. No test looks at a time."""

import pytest

from bench import bench_policy
from bench.policy_world import SLOTS, WORKERS, YAML, Engine, queue
from bench.report import Table
from headgate.core import verify
from headgate.policy.deltas import JobAdded, Question
from headgate.policy.runtime import Runtime


def test_the_queue_has_as_many_groups_as_its_title_says() -> None:
    jobs = [delta for delta in queue(480) if isinstance(delta, JobAdded)]
    assert len({(job.class_index, job.tenant, job.model_ref) for job in jobs}) == 48


def test_the_compiled_rules_look_at_all_and_leave_the_word_to_the_platform() -> None:
    runtime = Runtime()
    runtime.load(YAML)
    runtime.apply(queue(50))
    answer = runtime.ask(Question(0, max_answers=1))
    assert answer.actions[0]["action"] == "dispatch"
    assert not any("seeded" in step for step in answer.trace)


@pytest.mark.parametrize("record", [True, False])
def test_a_measured_cycle_fills_every_slot_and_the_next_one_again(record: bool) -> None:
    engine = Engine(400, record=record)
    try:
        for _ in range(2):
            assert engine.cycle() == WORKERS * SLOTS
            verify(engine.state)
            engine.finish_all()
        assert engine.recorded == (2 if record else 0)
        assert engine.deciding.refusals == 0
    finally:
        engine.deciding.stop()


def test_the_benchmark_prints_every_figure_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    bench_policy.main(sizes=(200, 400), rounds=20)
    shown = capsys.readouterr().out
    for words in (
        *("platform policy, 400 queued", "Lua scan of the whole queue, 400 queued", "compiled YAML, 200 queued"),
        *("per decision in 64", "hung policy to the fallback's decision", "new child ready", "MB resident"),
        *("leases, 400 queued, recorded", "leases, 400 queued, not recorded", "bytes a queued job"),
    ):
        assert words in shown, words


def test_a_table_of_decisions_has_a_ratio_to_the_echo() -> None:
    table = Table("t", ["p50", "p99", "of echo"])
    host = bench_policy.at_each_size(table, (100,), 10)
    host.stop()
    assert table.rows[0][3] == "1"
    assert len(table.rows) == 1 + len(bench_policy.POLICIES) + 1
