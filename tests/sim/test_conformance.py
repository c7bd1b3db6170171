"""Start times and makespans against results that others published or computed: exact, wherever exactness is defined."""

from __future__ import annotations

import functools
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from headgate.core.ordering import FirstFit
from headgate.sim import cluster_for, machine, run
from headgate.sim.results import Results
from headgate.sim.workloads import read_workload
from headgate.sim.workloads.dag import critical_path, parse_psplib
from headgate.sim.workloads.model import Workload
from headgate.sim.world import Ties
from tests.sim.data import WORKLOADS, needs_data, published_starts, reference, sim_job, workload

LUA = {"fcfs": "fcfs", "sjf": "sjf", "easy": "easy-backfill", "easy_sjbf": "easy-sjbf", "conservative": "conservative"}
VECTORS = WORKLOADS / "hpc/conformance/pyss-vectors.json"


# -- a machine of our own, by hand ---------------------------------------------------------------------------------

SMALL = workload(
    sim_job("a", 0, 10_000, units=6),
    sim_job("wide", 1_000, 5_000, units=10),
    sim_job("long", 2_000, 20_000, units=2),
    sim_job("short", 3_000, 4_000, units=4, estimate=7_000),
    sim_job("shorter", 3_500, 2_000, units=4, estimate=3_000),
    processors=10,
)
BY_HAND = {
    # nothing overtakes
    "fcfs": {"a": 0, "wide": 10_000, "long": 15_000, "short": 15_000, "shorter": 15_000},
    # wide is promised 10 s; short and shorter end before that, long does not
    "easy": {"a": 0, "wide": 10_000, "long": 15_000, "short": 3_000, "shorter": 7_000},
    # the same, but nobody may delay long either, which is promised 15 s and needs only two
    "conservative": {"a": 0, "wide": 10_000, "long": 15_000, "short": 3_000, "shorter": 7_000},
    # short comes first and fits; shorter fits behind it
    "easy_sjbf": {"a": 0, "wide": 10_000, "long": 15_000, "short": 3_000, "shorter": 7_000},
    # `wide` (5 s) waits for `a`; `short` (7 s) stands behind it, `shorter` (3 s) before it
    "sjf": {"a": 0, "shorter": 3_500, "wide": 10_000, "short": 15_000, "long": 15_000},
}


def starts(results: Results) -> dict[str, int | None]:
    return {record.id: record.started for record in results.records}


@pytest.mark.parametrize("policy", BY_HAND)
def test_a_small_machine_is_scheduled_as_by_hand(policy: str) -> None:
    assert starts(run(SMALL, LUA[policy])) == BY_HAND[policy]


def test_the_native_and_the_lua_first_come_first_served_decide_alike() -> None:
    native, lua = run(SMALL, "native:fcfs"), run(SMALL, "fcfs")
    assert [grant[:3] for grant in native.grants] == [grant[:3] for grant in lua.grants]


# -- the unit vectors of pyss --------------------------------------------------------------------------------------


def vectors() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(VECTORS.read_text()) if VECTORS.is_file() else []
    return found


def cases() -> list[Any]:
    return [pytest.param(vector, policy, id=f"{vector['name']}-{policy}")
            for vector in vectors() for policy in vector["policies"]]  # fmt: skip


@needs_data
def test_there_are_38_vectors() -> None:
    assert len(vectors()) == 38


@needs_data
@pytest.mark.parametrize(("vector", "policy"), cases())
def test_a_vector_of_pyss_ends_as_it_should(vector: dict[str, Any], policy: str) -> None:
    jobs = [
        sim_job(str(n), job["submit"] * 1000, job["run"] * 1000, job["procs"], job["estimate"] * 1000)
        for n, job in enumerate(vector["jobs"])
    ]
    given = workload(*sorted(jobs, key=lambda job: job.at), processors=vector["procs"])
    ends = {record.id: record.ended for record in run(given, LUA[policy]).records}
    assert ends == {str(n): job["expect_finish"] * 1000 for n, job in enumerate(vector["jobs"])}


# -- whole logs ----------------------------------------------------------------------------------------------------


@functools.cache
def log(name: str) -> Workload:
    return read_workload(WORKLOADS / f"hpc/inputs/{name}.swf.gz")


def differing(name: str, policy: str, results: Results) -> dict[str, int | None]:
    """Jobs whose start is not the published one."""
    unit = 1 if name.endswith("notie") else 1000
    found = starts(results)
    return {job: found.get(job) for job, at in published_starts(name, policy).items() if found.get(job) != at * unit}


@needs_data
@pytest.mark.parametrize("policy", ["fcfs", "easy", pytest.param("easy_sjbf", marks=pytest.mark.slow)])
def test_every_start_on_a_log_without_ties_is_the_published_one(policy: str) -> None:
    assert differing("KTH-SP2-10k-notie", policy, run(log("KTH-SP2-10k-notie"), LUA[policy])) == {}


@needs_data
@pytest.mark.parametrize("name", ["KTH-SP2.sc15", pytest.param("SDSC-SP2.sc15", marks=pytest.mark.slow)])
def test_first_come_first_served_on_a_whole_log_is_exact(name: str) -> None:
    results = run(log(name), "native:fcfs")
    assert differing(name, "fcfs", results) == {}
    known = reference()["hpc"][name]["policies"]["fcfs"]
    assert results.wait.mean == pytest.approx(known["avg_wait_s"], abs=1e-3)
    assert results.slowdown.mean == pytest.approx(known["avg_bsld10"], abs=1e-4)
    assert results.makespan == known["makespan_s"]
    assert results.utilisation == pytest.approx(known["utilisation"], abs=1e-6)


SLOW = [
    ("KTH-SP2.sc15", "easy", "submissions-first"), ("KTH-SP2.sc15", "easy_sjbf", "submissions-first"),
    ("SDSC-SP2.sc15", "easy", "submissions-first"), ("SDSC-SP2.sc15", "easy_sjbf", "submissions-first"),
    ("KTH-SP2.sc15", "sjf", "ends-first"), ("KTH-SP2.sc15", "fcfs", "ends-first"),
    ("NASA-iPSC.norm", "easy", "submissions-first"), ("lublin_256.norm", "easy", "submissions-first"),
]  # fmt: skip


@needs_data
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "policy", "ties"), SLOW)
def test_every_start_on_a_whole_log_is_exact_under_its_rule_for_ties(name: str, policy: str, ties: Ties) -> None:
    assert differing(name, policy, run(log(name), LUA[policy], ties=ties)) == {}


@needs_data
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["KTH-SP2.sc15", "SDSC-SP2.sc15"])
@pytest.mark.parametrize("policy", ["easy", "easy_sjbf"])
def test_under_our_own_rule_for_ties_the_averages_are_close(name: str, policy: str) -> None:
    results = run(log(name), LUA[policy])
    known = reference()["hpc"][name]["policies"][policy]
    assert results.wait.mean == pytest.approx(known["avg_wait_s"], rel=0.03)
    assert results.slowdown.mean == pytest.approx(known["avg_bsld10"], rel=0.03)


@needs_data
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_conservative_backfilling_lands_near_the_one_source_there_is() -> None:
    results = run(log("KTH-SP2-10k-notie"), "conservative")
    known = reference()["hpc"]["KTH-SP2-10k-notie"]["policies"]["conservative"]
    assert results.wait.mean == pytest.approx(known["avg_wait_s"], rel=0.05)


# -- graphs --------------------------------------------------------------------------------------------------------


def graphs(folder: str) -> list[Path]:
    return sorted((WORKLOADS / "dag" / folder).glob("*.gz"))


def makespan(given: Workload, processors: int | None = None) -> float:
    where = cluster_for(given) if processors is None else machine(processors)
    results = run(given, FirstFit(), where, keep=False)
    assert results.by_state == {"completed": len(given)}
    return results.makespan


@needs_data
@pytest.mark.parametrize("path", graphs("stg"), ids=lambda path: path.name)
def test_a_task_graph_on_unlimited_processors_takes_its_critical_path(path: Path) -> None:
    given, name = read_workload(path), path.name.removesuffix(".stg.gz")
    known = reference()["dag"][f"stg/{name}"]
    assert given.problems.total == 0
    assert int(given.notes["CP Length"]) == known["published_cp_length"] == critical_path(given) / 1000
    assert makespan(given) == known["critical_path"]
    on_eight = makespan(given, 8)
    assert max(known["critical_path"], known["work"] / 8) <= on_eight <= known["work"] / 8 + known["critical_path"]


@needs_data
@pytest.mark.parametrize("path", graphs("wfcommons"), ids=lambda path: path.name)
def test_a_workflow_takes_its_critical_path_or_on_one_worker_its_work(path: Path) -> None:
    given = read_workload(path)
    known = reference()["dag"][f"wfcommons/{path.name.removesuffix('.json.gz')}"]
    assert len(given) == known["tasks"]
    assert makespan(given) == pytest.approx(known["critical_path_s"], abs=6e-4)
    assert makespan(given, 1) == pytest.approx(known["work_s"], abs=6e-4)


def projects() -> tuple[dict[str, str], dict[str, int]]:
    with tarfile.open(WORKLOADS / "dag/psplib/j30.tar.gz") as archive:
        texts = {name: archive.extractfile(name).read().decode() for name in archive.getnames()}  # type: ignore[union-attr]
    rows = [line.split(",") for line in texts.pop("optimum/optimum.csv").split()[1:]]
    return texts, {name: int(best) for name, best in rows}


@needs_data
def test_no_project_is_done_sooner_than_its_optimum() -> None:
    texts, optimum = projects()
    assert len(texts) == len(optimum) == reference()["dag"]["psplib_j30_instances"]
    best = 0
    for name, text in texts.items():
        found = makespan(parse_psplib(name, text))
        assert found >= optimum[name], name
        best += found == optimum[name]
    assert best > len(texts) // 4, "a list schedule finds the optimum of many small projects"
