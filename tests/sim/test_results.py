"""Results, comparisons, what-if and reports."""

from __future__ import annotations

import csv
import io
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.cluster import WorkerSpec
from headgate.core.errors import InvalidInput
from headgate.policy.statistics import block_bootstrap
from headgate.sim import (
    Cluster,
    Shape,
    compare,
    compare_report,
    comparison,
    generate,
    gpu_pool,
    machine,
    policy_names,
    run,
    scaled,
    sim_settings,
    summary,
    with_load,
    without_pool,
    workers,
    write_csv,
    write_parquet,
)
from headgate.sim import svg as charts
from headgate.sim.compare import first_divergence
from headgate.sim.numbers import LogHistogram, distribution, jain
from headgate.sim.recording import decision_of
from headgate.sim.results import COLUMNS, rows
from headgate.sim.text import span
from tests.sim.data import sim_job, workload

TWO = workload(sim_job("a", 0, 20_000, 2), sim_job("b", 5_000, 10_000, 2), processors=2)


def test_the_figures_are_those_of_a_calculation_by_hand() -> None:
    results = run(TWO, "fcfs")
    assert (results.wait.mean, results.wait.largest, results.turnaround.mean) == (7.5, 15, 22.5)
    assert results.slowdown.mean == (1 + 2.5) / 2
    assert (results.makespan, results.utilisation) == (30, 1.0)
    assert results.throughput == 2 / 30 * 3600
    assert results.classes["normal"].jobs == 2
    assert max(sample.queued for sample in results.series) == 1


def test_runs_below_ten_seconds_count_as_ten() -> None:
    short = workload(sim_job("a", 0, 40_000), sim_job("b", 0, 1_000), processors=1)
    assert run(short, "fcfs").slowdown.largest == 4.1


def test_without_keeping_jobs_the_figures_are_close_and_the_table_is_streamed() -> None:
    made = generate("lublin", 1, Shape(jobs=150, load=0.9))
    table = io.StringIO()
    exact, close = run(made, "native:fcfs"), run(made, "native:fcfs", keep=False, table=table)
    assert not close.records
    assert not close.grants
    assert not close.series
    for name in ("mean", "p50", "p90", "p99", "largest"):
        assert getattr(close.wait, name) == pytest.approx(getattr(exact.wait, name), rel=0.03)
    assert len(list(csv.reader(io.StringIO(table.getvalue())))) == 151


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=60))
def test_the_histogram_is_right_to_a_few_per_cent(values: list[float]) -> None:
    histogram = LogHistogram()
    for value in values:
        histogram.add(value)
    exact, close = distribution(values), histogram.distribution()
    for name in ("p50", "p90", "p95", "p99", "largest"):
        assert getattr(close, name) == pytest.approx(getattr(exact, name), rel=0.03, abs=1e-8)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_jains_index_lies_between_one_nth_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9
    assert jain([3.0] * len(values)) == pytest.approx(1)


def test_the_bootstrap_finds_a_difference_and_only_where_there_is_one() -> None:
    noise = [float((n * 7919) % 101 - 50) for n in range(2_000)]
    assert not block_bootstrap(noise).clear
    moved = block_bootstrap([value + 10 for value in noise])
    assert moved.clear
    assert moved.low < moved.mean < moved.high
    assert block_bootstrap(noise, seed=1) == block_bootstrap(noise, seed=1)
    assert block_bootstrap([]).mean == 0


# -- comparing -----------------------------------------------------------------------------------------------------


def test_a_comparison_names_the_first_decision_in_which_policies_part() -> None:
    jobs = [sim_job("a", 0, 10_000, 6), sim_job("wide", 1_000, 5_000, 10), sim_job("small", 2_000, 3_000, 4)]
    compared = compare(workload(*jobs, processors=10), ["fcfs", "easy-backfill"])
    (difference,) = compared.differences
    found = difference.divergence
    assert found is not None
    assert (found.number, found.first, found.second) == (
        2, compared.runs["fcfs"][0].grants[1], compared.runs["easy-backfill"][0].grants[1],
    )  # fmt: skip
    assert (found.first_elsewhere, found.second_elsewhere) == (10_000, 15_000)
    assert difference.intervals["wait"].mean == pytest.approx(-13 / 3)
    assert (difference.better, difference.worse) == (1, 0)
    text = comparison(compared)
    assert "They part at start 2" in text
    assert (
        "easy-backfill starts small on machine after 2.0 s in its decision 3 (backfill: delays nobody), "
        "fcfs after 15.0 s"
    ) in text
    _, question = decision_of(workload(*jobs, processors=10), "easy-backfill", machine(10), 3)
    assert question.now_ms == 2_000, "the number is the one that `headgate policy trace --number` takes"


def test_a_policy_does_not_differ_from_itself() -> None:
    compared = compare(TWO, ["fcfs", "fcfs", "native:fcfs"], seeds=(0, 1))
    assert compared.policies == ["fcfs", "fcfs (1)", "native:fcfs"]
    for difference in compared.differences:
        assert difference.divergence is None
        assert not difference.intervals["wait"].clear
    assert "decide alike" in comparison(compared)


def test_what_is_cut_is_compared_as_far_as_both_came_and_says_so(tmp_path: Path) -> None:
    made = generate("poisson", 0, Shape(jobs=2_000, processors=2))
    whole, cut = run(made, "fcfs"), run(made, "fcfs", limit_s=0.01)
    assert cut.cut is not None
    left = cut.cut.under_way + cut.cut.to_come
    assert (cut.jobs + left, left > 0, cut.counts.stuck) == (2_000, True, 0)
    assert cut.grants == whole.grants[: len(cut.grants)]
    assert first_divergence(whole, cut) is None
    compared = compare(made, ["fcfs", "sjf"], limit_s=0.01)
    compare_report(tmp_path / "report.html", compared)
    for text in (summary(cut), comparison(compared), (tmp_path / "report.html").read_text()):
        assert "fcfs was cut after" in text
    with pytest.raises(InvalidInput, match="limit"):
        run(made, "fcfs", limit_s=0)


def test_whoever_watches_sees_the_share_of_all_runs_grow() -> None:
    seen: list[float] = []
    made = generate("poisson", 0, Shape(jobs=20, processors=2))
    compare(made, ["native:fcfs", "native:first-fit"], seeds=(0, 1), watch=seen.append)
    assert seen == sorted(seen)
    assert {0.0, 0.25, 0.5, 0.75} <= set(seen)


def test_the_report_counts_times_from_the_first_job_as_the_terminal_does(tmp_path: Path) -> None:
    late = [sim_job("a", 500_000, 10_000, 6), sim_job("wide", 501_000, 5_000, 10), sim_job("small", 502_000, 3_000, 4)]
    compared = compare(workload(*late, processors=10), ["fcfs", "easy-backfill"])
    compare_report(tmp_path / "report.html", compared)
    for text in (comparison(compared), (tmp_path / "report.html").read_text()):
        assert "starts small on machine after 2.0 s in its decision" in text


def test_jobs_that_never_start_count_among_the_jobs_and_a_failure_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.lua").write_text("function schedule(context) error('no such luck') end")
    jobs = [sim_job("giant", 0, 10, 11), sim_job("a", 1, 10)]
    text = summary(run(workload(*jobs, processors=10), tmp_path / "broken.lua"))
    assert re.search(r"^jobs +2, 1 completed, 1 not ended$", text, re.MULTILINE)
    assert "the first time: policy:1: no such luck" in text


def test_each_seed_may_have_a_workload_of_its_own() -> None:
    compared = compare(lambda seed: generate("poisson", seed, Shape(jobs=30)), ["fcfs", "sjf"], seeds=(1, 2))
    assert [results.workload for results in compared.runs["sjf"]] == ["poisson-1", "poisson-2"]


def test_one_policy_alone_cannot_be_compared() -> None:
    with pytest.raises(InvalidInput, match="policies"):
        compare(TWO, ["fcfs"])
    with pytest.raises(InvalidInput, match="neither a file nor one of"):
        run(TWO, "no-such-policy")


def test_a_yaml_policy_can_be_compared_with_the_platform_policy(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("""
scheduler:
  name: mine
  rules:
    - name: all
      condition: always
      action:
        use: platform-scheduler
""")
    compared = compare(TWO, ["platform", path])
    assert compared.policies == ["platform", "mine"]
    assert compared.differences[0].divergence is None


# -- what if -------------------------------------------------------------------------------------------------------


def test_twice_the_machine_and_half_the_load_both_shorten_the_wait() -> None:
    made = generate("poisson", 1, Shape(jobs=120, processors=8, load=1.2))
    base = run(made, "native:fcfs").wait.mean
    assert run(made, "native:fcfs", scaled(machine(8), 2)).wait.mean < base
    assert run(with_load(made, 0.5), "native:fcfs").wait.mean < base


def test_clusters_grow_shrink_and_lose_pools() -> None:
    some = workers(4, slots=2)
    assert len(scaled(some, 1.5).workers) == 6
    assert len({worker.id for worker in scaled(some, 2.5).workers}) == 10
    pools = Cluster(
        sim_settings(), (WorkerSpec("a", "p"), WorkerSpec("b", "q")), (gpu_pool("p", 2, 10), gpu_pool("q", 1, 10))
    )
    assert [len(pool.gpus) for pool in scaled(pools, 2).pools] == [4, 2]
    left = without_pool(pools, "p")
    assert ([worker.id for worker in left.workers], [pool.id for pool in left.pools]) == (["b"], ["q"])
    for wrong in (lambda: without_pool(pools, "z"), lambda: scaled(pools, 0), lambda: with_load(TWO, 0)):
        with pytest.raises(InvalidInput):
            wrong()


# -- reports -------------------------------------------------------------------------------------------------------


def test_the_report_is_one_page_that_needs_nothing_else(tmp_path: Path) -> None:
    made = generate("lublin", 1, Shape(jobs=60, load=0.9, tenants=3))
    path = tmp_path / "report.html"
    compare_report(path, compare(made, ["fcfs", "easy-backfill"]))
    page = path.read_text()
    assert "<script" not in page
    assert not re.findall(r"""(?:src|href)\s*=|@import|url\(""", page)
    drawn = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawn) == 8
    for chart in drawn:
        ET.fromstring(charts.standalone(chart))
    assert page.count("<rect") == 120


def test_names_are_escaped_in_reports(tmp_path: Path) -> None:
    evil = workload(sim_job("<b>&", 0, 1_000, tenant="<i>"), sim_job("x", 0, 10, tenant="y"), processors=1, name="<u>")
    path = tmp_path / "report.html"
    compare_report(path, compare(evil, ["fcfs", "sjf"]))
    page = path.read_text()
    assert not re.search(r"<b>&|<i>|<u>", page)


def test_an_empty_workload_has_results_and_a_report(tmp_path: Path) -> None:
    compared = compare(workload(processors=1), ["fcfs", "sjf"])
    assert compared.runs["fcfs"][0].jobs == 0
    compare_report(tmp_path / "r.html", compared)
    assert "jobs" in summary(compared.runs["sjf"][0])


def test_the_table_of_jobs_is_written_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    write_csv(run(TWO, "fcfs"), path)
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [(row["job_id"], row["started_s"], row["wait_s"]) for row in rows] == [
        ("a", "0.0", "0.0"),
        ("b", "20.0", "15.0"),
    ]


def test_parquet_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match=r"headgate\[parquet\]"):
        write_parquet(run(TWO, "fcfs"), tmp_path / "jobs.parquet")


def test_parquet_holds_the_same_rows_as_the_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet is NOT tested: the extra 'parquet' is missing")
    made = generate("bursty", 3, Shape(jobs=50, tenants=3))
    results = run(made, "fcfs")
    write_parquet(results, tmp_path / "jobs.parquet")
    table = parquet.read_table(tmp_path / "jobs.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == list(rows(results))
    none = msgspec.structs.replace(results, records=[])
    write_parquet(none, tmp_path / "none.parquet")
    assert parquet.read_schema(tmp_path / "none.parquet") == table.schema


@pytest.mark.parametrize(("seconds", "said"), [(0, "0.0 s"), (0.25, "250.0 ms"), (90, "90.0 s"), (7_200, "2.0 h")])
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize("name", [name for name in policy_names() if not name.startswith("native:")])
def test_every_policy_that_comes_with_headgate_finishes_a_mixed_workload(name: str) -> None:
    made = generate("lublin", 2, Shape(jobs=60, processors=16, load=0.8, tenants=2))
    results = run(made, name, machine(16))
    assert results.by_state == {"completed": 60}, name
    assert results.counts.refusals == 0


def test_results_can_be_written_down() -> None:
    assert msgspec.json.decode(run(TWO, "fcfs").deterministic())["policy"] == "fcfs"
