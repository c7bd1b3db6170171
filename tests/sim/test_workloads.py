"""Readers and generators: what is in a file is read, and what is wrong with it is told with its line."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.errors import InvalidInput
from headgate.sim import GENERATORS, Shape, WorkloadError, generate, read_workload, write_jsonl
from headgate.sim.workloads.dag import critical_path, parse_psplib, read_psplib
from headgate.sim.workloads.gpu import read_openb
from headgate.sim.workloads.jsonl import read_jsonl
from headgate.sim.workloads.llm import prefix_hits
from headgate.sim.workloads.swf import read_swf
from tests.sim.data import WORKLOADS, needs_data

GOOD = "1 10 -1 100 4 -1 -1 8 200 -1 1 3 -1 -1 -1 -1 -1 -1"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


# -- SWF -----------------------------------------------------------------------------------------------------------


def test_a_record_of_a_log_becomes_a_job(tmp_path: Path) -> None:
    path = written(tmp_path, "log.swf.gz", f"; MaxProcs: 64\n; Computer: small\n\n{GOOD}\n")
    found = read_workload(path)
    assert (found.name, found.processors, found.notes["Computer"]) == ("log", 64, "small")
    (job,) = found.jobs
    assert (job.id, job.at, job.run, job.user) == ("1", 10_000, 100_000, "3")
    assert (job.spec.kind.units, job.spec.kind.estimated_duration, job.spec.kind.tenant) == (8, 200_000, "default")
    assert read_swf(path, tenants=True).jobs[0].spec.kind.tenant == "u3"
    assert read_swf(path, processors="allocated").jobs[0].spec.kind.units == 4
    assert read_swf(path, perfect_estimates=True).jobs[0].spec.kind.estimated_duration == 100_000


def test_whatever_is_wrong_in_a_log_is_counted_with_its_line(tmp_path: Path) -> None:
    lines = [
        "; MaxProcs: 64",
        GOOD,
        "2 10 -1 100",
        GOOD.replace("1 10", "3 x", 1),
        GOOD.replace("1 10 -1 100", "4 10 -1 -1", 1),
        GOOD.replace("4 -1 -1 8", "-1 -1 -1 -1").replace("1 10", "5 10", 1),
        GOOD.replace("8 200", "65 200").replace("1 10", "6 10", 1),
        GOOD.replace("8 200", "8 -1").replace("1 10", "7 10", 1),
        GOOD.replace("8 200", "8 50").replace("1 10", "8 10", 1),
        GOOD,
        GOOD.replace("1 10", "9 -5", 1),
    ]
    found = read_workload(written(tmp_path, "log.swf", "\n".join(lines)))
    lines_of = {kind: [problem.line for problem in kept] for kind, kept in found.problems.found.items()}
    assert lines_of == {
        "fields": [3], "number": [4], "never ran": [5], "processors": [6], "too large": [7], "no estimate": [8],
        "overran": [9], "number twice": [10], "submit": [11],
    }  # fmt: skip
    assert [job.id for job in found.jobs] == ["1", "7", "8"]
    assert found.jobs[2].run == found.jobs[2].spec.kind.estimated_duration == 50_000
    assert "overran: 1 (line 9)" in found.problems.summary()


def test_a_log_in_microseconds_is_simulated_in_microseconds(tmp_path: Path) -> None:
    found = read_workload(written(tmp_path, "log.swf", f"; MaxProcs: 64\n; TimeUnit: 1e-6 s\n{GOOD}\n"))
    assert (found.tick, found.jobs[0].run) == (1e-6, 100)


RAW = {
    "KTH-SP2-1996-2.1-cln": 28476, "SDSC-SP2-1998-4.2-cln": 59715, "NASA-iPSC-1993-3.1-cln": 18239,
    "LLNL-Atlas-2006-2.1-cln": 43778, "lublin_256": 10000,
}  # fmt: skip


@needs_data
@pytest.mark.parametrize("name", RAW)
def test_every_record_of_a_real_log_is_a_job_or_a_problem(name: str) -> None:
    found = read_workload(WORKLOADS / f"hpc/raw/{name}.swf.gz")
    left_out = sum(n for kind, n in found.problems.counts.items() if kind not in ("no estimate", "overran"))
    assert len(found) + left_out == RAW[name]
    assert "fields" not in found.problems.counts


# -- the other formats ---------------------------------------------------------------------------------------------


def test_requests_take_the_time_of_their_tokens(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,1000,10\n2023-11-16 18:15:47.0,x,1\n"
    found = read_workload(written(tmp_path, "t.csv", text))
    assert [(job.at, job.run) for job in found.jobs] == [(0, 350)]
    assert found.problems.found["row"][0].line == 3


def test_prefixes_that_come_again_are_hits(tmp_path: Path) -> None:
    rows = ['{"timestamp": 5, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}'] * 2 + [
        "{",
        '{"timestamp": 1}',
    ]
    found = read_workload(written(tmp_path, "t.jsonl", "\n".join(rows)))
    assert prefix_hits(found).blocks == 0.5
    assert [problem.line for problem in found.problems.found["row"]] == [3, 4]


def test_gangs_and_pods_ask_for_gpus(tmp_path: Path) -> None:
    head = "timestamp,duration,num_gpus,gpu_time,cluster"
    text = f"{head}\n2017-10-09 07:01:55,66.0,8,66.0,vc\n2017-10-09 07:01:00,0,1,0,vc\n"
    gang = read_workload(written(tmp_path, "philly.csv", text))
    assert [(job.run, job.spec.kind.units, job.spec.kind.tenant) for job in gang.jobs] == [(66_000, 8, "vc")]
    assert gang.problems.found["never ran"][0].line == 3
    head = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    pods = written(
        tmp_path, "pods.csv", f"{head}\np1,6000,100,1,460,V100|P100,LS,Running,5,15,7\np2,1,1,0,,,LS,Pending,9,10,\n"
    )
    nodes = written(tmp_path, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1000,2,P100\n")
    found = read_openb(pods, nodes)
    assert found.jobs[0].run == 8_000
    assert dict(found.jobs[0].spec.kind.resources)["gpu"] == pytest.approx(0.46, abs=1e-4)
    assert found.nodes[0].id == "n1"
    assert set(found.problems.counts) == {"several models", "never scheduled"}


PROJECT = """PRECEDENCE RELATIONS:
jobnr. #modes #successors successors
1 1 2 2 3
2 1 0
3 1 0
****
REQUESTS/DURATIONS:
jobnr. mode duration R 1 R 2
1 1 4 1 0
2 1 3 2 1
3 1 2 2 0
****
RESOURCEAVAILABILITIES:
 R 1 R 2
 2 1
****
"""


def test_a_project_has_resources_and_an_order() -> None:
    found = parse_psplib("p", PROJECT)
    assert [(job.id, job.run, job.spec.dependencies) for job in found.jobs] == [
        ("1", 4_000, ()), ("2", 3_000, ("1",)), ("3", 2_000, ("1",)),
    ]  # fmt: skip
    assert found.nodes[0].resources == (("R1", 2), ("R2", 1))
    assert critical_path(found) == 7_000


def test_a_graph_that_names_unknown_tasks_or_too_few_is_told(tmp_path: Path) -> None:
    text = " 2\n 0 0 0\n 1 5 1 0\n 2 4 2 1\n 3 4 1 9\n# CP Length : 9\n"
    found = read_workload(written(tmp_path, "g.stg", text))
    assert set(found.problems.counts) == {"fields", "tasks", "parents"}
    assert found.notes["CP Length"] == "9"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.stg", ""), ("a.json", '{"workflow": 3}'), ("a.csv", "what,ever\n"), ("a.sm", "nothing"), ("a.jsonl", ""),
        ("b.json", "{"),
    ],
)  # fmt: skip
def test_what_is_no_workload_at_all_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(WorkloadError):
        read_workload(written(tmp_path, name, text))


def test_files_that_are_not_there_or_cut_off_are_errors_that_name_them(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"gone\.swf"):
        read_workload(tmp_path / "gone.swf")
    cut = tmp_path / "cut.swf.gz"
    cut.write_bytes(gzip.compress(GOOD.encode() * 100)[:-20])
    with pytest.raises(WorkloadError, match="gzip"):
        read_workload(cut)
    with pytest.raises(InvalidInput, match="format"):
        read_workload(cut, format="excel")


@needs_data
def test_the_traces_have_the_published_size() -> None:
    mooncake = read_workload(WORKLOADS / "llm/mooncake_conversation_trace.jsonl.gz")
    hits = prefix_hits(mooncake)
    assert (round(hits.blocks * 100, 2), round(hits.tokens * 100, 2)) == (36.64, 37.36)
    tokens = [msgspec.json.decode(job.spec.attributes) for job in mooncake.jobs]
    means = [round(mean(t[name] for t in tokens)) for name in ("input_tokens", "output_tokens")]
    assert (len(tokens), *means) == (12031, 12035, 343)
    azure = read_workload(WORKLOADS / "llm/AzureLLMInferenceTrace_conv.csv.gz")
    tokens = [msgspec.json.decode(job.spec.attributes) for job in azure.jobs]
    assert round(mean(t["input_tokens"] for t in tokens), 1) == 1154.7
    assert (median(t["input_tokens"] for t in tokens), median(t["output_tokens"] for t in tokens)) == (1020, 129)
    assert azure.jobs[-1].at / 1000 == pytest.approx(3501.7, abs=0.1)


@needs_data
def test_the_gpu_traces_are_read_whole() -> None:
    philly = read_workload(WORKLOADS / "gpu/philly.csv.gz")
    assert (len(philly), philly.problems.total) == (82247, 0), "the last of 82248 lines is empty"
    openb = read_openb(
        WORKLOADS / "gpu/openb_pod_list_default.csv.gz", WORKLOADS / "gpu/openb_node_list_gpu_node.csv.gz"
    )
    assert (len(openb) + openb.problems.counts["never ran"], len(openb.nodes)) == (8152, 1213)
    assert sum(dict(node.resources).get("gpu", 0) for node in openb.nodes) == 6212
    assert len(read_psplib(WORKLOADS / "dag/psplib/j30.tar.gz", "j301_1.sm")) == 32


# -- our own format ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", GENERATORS)
def test_a_workload_survives_being_written_and_read(tmp_path: Path, model: str) -> None:
    made = generate(model, 5, Shape(jobs=50, tenants=3))
    path = tmp_path / "made.jsonl"
    write_jsonl(made, path)
    back = read_workload(path)
    assert list(back.jobs) == list(made.jobs)
    assert (back.name, back.processors, back.tick, back.notes) == (made.name, made.processors, made.tick, made.notes)


def test_bad_lines_of_our_own_format_are_told_and_a_bad_header_is_an_error(tmp_path: Path) -> None:
    lines = [
        '{"headgate-workload": 1}', '{"id": "a", "at": 0, "run": 5, "deadline": 9, "job": {"units": 2}}', "nonsense",
        '{"id": "b", "at": -1, "run": 5}', '{"id": "c", "at": 0, "run": 5, "job": {"units": "many"}}',
        '{"id": "d", "at": 0, "run": 5, "extra": 1}',
    ]  # fmt: skip
    found = read_workload(written(tmp_path, "w.jsonl", "\n".join(lines)))
    assert [(job.id, job.spec.kind.units, job.spec.deadline) for job in found.jobs] == [("a", 2, 9)]
    assert [problem.line for problem in found.problems.found["job"]] == [3, 4, 5, 6]
    with pytest.raises(WorkloadError, match="format 2"):
        read_jsonl(written(tmp_path, "n.jsonl", '{"headgate-workload": 2}'))
    with pytest.raises(WorkloadError, match="header"):
        read_jsonl(written(tmp_path, "h.jsonl", '{"name": 3}'))


# -- generators ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", GENERATORS)
def test_the_same_seed_makes_the_same_workload_and_another_another(model: str) -> None:
    shape = Shape(jobs=100)
    assert generate(model, 1, shape).jobs == generate(model, 1, shape).jobs
    assert generate(model, 1, shape).jobs != generate(model, 2, shape).jobs


@settings(max_examples=30, deadline=None)
@given(
    model=st.sampled_from(GENERATORS), seed=st.integers(0, 99), jobs=st.integers(0, 60), size=st.integers(1, 512),
    load=st.floats(0.05, 3), tenants=st.integers(1, 9),
)  # fmt: skip
def test_generated_jobs_fit_their_machine_and_come_in_order(
    model: str, seed: int, jobs: int, size: int, load: float, tenants: int
) -> None:
    made = generate(model, seed, Shape(jobs=jobs, processors=size, load=load, tenants=tenants))
    assert len(made) == jobs
    assert all(1 <= job.spec.kind.units <= size and job.run >= 1 for job in made.jobs)
    assert all(job.run <= (job.spec.kind.estimated_duration or 0) for job in made.jobs)
    assert [job.at for job in made.jobs] == sorted(job.at for job in made.jobs)


@pytest.mark.parametrize("model", ["poisson", "heavy"])
def test_generated_load_is_about_what_was_asked_for(model: str) -> None:
    made = generate(model, 4, Shape(jobs=3_000, processors=64, load=0.6))
    work = sum(job.run * job.spec.kind.units for job in made.jobs)
    assert work / (64 * made.jobs[-1].at) == pytest.approx(0.6, rel=0.1)


def test_a_burst_is_burstier_than_poisson() -> None:
    def spread(model: str) -> float:
        times = [job.at for job in generate(model, 2, Shape(jobs=3_000)).jobs]
        gaps = [after - before for before, after in pairwise(times)]
        middle = mean(gaps)
        return mean((gap - middle) ** 2 for gap in gaps) / middle**2

    assert spread("poisson") == pytest.approx(1, rel=0.2)
    assert spread("bursty") > 1.5


def test_unknown_models_and_senseless_shapes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="model"):
        generate("magic")
    with pytest.raises(InvalidInput, match="processors"):
        generate("poisson", 0, Shape(processors=0))
