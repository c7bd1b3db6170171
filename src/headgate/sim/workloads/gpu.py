"""GPU clusters: the Philly jobs (gangs of GPUs) and the pods and nodes of Alibaba's openb trace."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from headgate.core.job import JobKind, JobSpec
from headgate.core.quantities import amount
from headgate.sim.workloads.files import rows_of, stem_of
from headgate.sim.workloads.model import Kinds, Node, Problems, SimJob, Workload, in_order

SECOND = 1000


def read_philly(path: str | Path, *, tenants: bool = True) -> Workload:
    """`timestamp,duration,num_gpus,gpu_time,cluster`: a GPU is a unit, a virtual cluster is a tenant."""
    problems, kinds, jobs = Problems(), Kinds(), []
    for number, row in rows_of(path, "timestamp", "duration", "num_gpus", "cluster"):
        try:
            at = round(datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp() * SECOND)
            run, gpus = round(float(row["duration"]) * SECOND), int(row["num_gpus"])
        except (ValueError, OverflowError) as error:
            problems.add("row", number, f"{error}; left out")
            continue
        if run <= 0 or gpus <= 0:
            problems.add("never ran", number, f"{gpus} GPUs for {row['duration']} s; left out")
            continue
        tenant = row["cluster"] if tenants and row["cluster"] else "default"
        kind = kinds.of(JobKind(type="training", tenant=tenant, units=gpus, estimated_duration=run))
        name = f"p{number:06}"
        jobs.append(SimJob(name, at, run, JobSpec(kind, name), user=row["cluster"]))
    return Workload(stem_of(path), in_order(jobs), problems=problems)


def read_openb(pods: str | Path, nodes: str | Path | None = None) -> Workload:
    """Pods with their needs (cores, MiB, GPUs in thousandths), and the nodes they ran on.

    A pod that was never scheduled has no run time of its own: it takes the time until its deletion.
    """
    problems, kinds, jobs = Problems(), Kinds(), []
    needed = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
    for number, row in rows_of(pods, *needed):
        job = _pod(number, row, kinds, problems)
        if job is not None:
            jobs.append(job)
    machines = _nodes(nodes, problems) if nodes is not None else ()
    return Workload(stem_of(pods), in_order(jobs), problems=problems, nodes=machines)


def _pod(number: int, row: dict[str, str], kinds: Kinds, problems: Problems) -> SimJob | None:
    try:
        created, deleted = int(row["creation_time"]), int(row["deletion_time"])
        gpus = int(row["num_gpu"]) * int(row["gpu_milli"] or 0) / 1000
        asked = {"cpu": int(row["cpu_milli"]) / 1000, "memory": int(row["memory_mib"]), "gpu": gpus}
        begun = int(row.get("scheduled_time") or created)
    except ValueError as error:
        problems.add("row", number, f"{error}; left out")
        return None
    if not row.get("scheduled_time"):
        problems.add("never scheduled", number, f"{row['name']} runs from its creation to its deletion here")
    specs = [spec for spec in row.get("gpu_spec", "").split("|") if spec]
    if len(specs) > 1:
        problems.add(
            "several models", number, f"{row['name']} may use any of {len(specs)} GPU models; any GPU is taken"
        )
    run = deleted - begun
    if run <= 0:
        problems.add("never ran", number, f"{row['name']} ran for {run} s; left out")
        return None
    needs = tuple(sorted((name, amount(value, name)) for name, value in asked.items() if value))
    requires = (("gpu_model", specs[0]),) if len(specs) == 1 else ()
    kind = JobKind(
        type="pod", resources=needs, requires=requires, labels=(("qos", row.get("qos", "")),),
        estimated_duration=run * SECOND,
    )  # fmt: skip
    return SimJob(row["name"], created * SECOND, run * SECOND, JobSpec(kinds.of(kind), row["name"]))


def _nodes(path: str | Path, problems: Problems) -> tuple[Node, ...]:
    found = []
    for number, row in rows_of(path, "sn", "cpu_milli", "memory_mib", "gpu"):
        try:
            offered = {"cpu": int(row["cpu_milli"]) / 1000, "memory": int(row["memory_mib"]), "gpu": int(row["gpu"])}
        except ValueError as error:
            problems.add("node", number, f"{error}; left out")
            continue
        model = row.get("model", "")
        amounts = tuple(sorted((name, amount(value, name)) for name, value in offered.items() if value))
        found.append(Node(row["sn"], amounts, (("gpu_model", model),) if model else ()))
    return tuple(found)
