"""Headgate's own open format: a header line, then one JSON object a job (docs/reference/workloads.md)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from headgate.core.errors import HeadgateError
from headgate.core.job import JobKind, JobSpec
from headgate.core.job_input import parse_job
from headgate.sim.workloads.files import lines_of, stem_of
from headgate.sim.workloads.model import Kinds, Node, Problems, SimJob, Workload, WorkloadError, in_order

FORMAT = 1
_DEFAULTS = JobKind()


class Header(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The first line. `tick` is the length of a unit of time in seconds."""

    headgate_workload: int = msgspec.field(name="headgate-workload", default=FORMAT)
    name: str = ""
    processors: int | None = None
    tick: float = 0.001
    nodes: tuple[Node, ...] = ()
    notes: dict[str, str] = {}


class Line(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One job. Times are in units of `tick`; `job` is what a caller would submit."""

    id: str
    at: int
    run: int
    estimate: int | None = None
    fails: int = 0
    user: str = ""
    not_before: int | None = None
    deadline: int | None = None
    """Both count from `at`."""
    job: dict[str, Any] = {}


_header = msgspec.json.Decoder(Header)
_line = msgspec.json.Decoder(Line)
_encode = msgspec.json.Encoder().encode


def read_jsonl(path: str | Path) -> Workload:
    """Read a workload. A header that is not one is an error; a job that is not one is a problem and left out."""
    lines = lines_of(path)
    first = next(lines, None)
    if first is None:
        raise WorkloadError(f"{path} is empty", path=str(path))
    try:
        header = _header.decode(first[1])
    except msgspec.DecodeError as error:
        raise WorkloadError(f"{path} does not begin with a header: {error}", path=str(path)) from error
    if header.headgate_workload != FORMAT:
        raise WorkloadError(f"{path} is of format {header.headgate_workload}, this reads {FORMAT}", path=str(path))
    problems, kinds, jobs = Problems(), Kinds(), []
    for number, text in lines:
        try:
            jobs.append(_job(_line.decode(text), kinds))
        except (msgspec.DecodeError, HeadgateError) as error:
            problems.add("job", number, f"{error}; left out")
    name = header.name or stem_of(path)
    return Workload(name, in_order(jobs), header.processors, header.tick, problems, header.notes, header.nodes)


def _job(line: Line, kinds: Kinds) -> SimJob:
    if line.at < 0 or line.run < 0 or line.fails < 0:
        raise WorkloadError("at, run and fails must not be negative", field="at" if line.at < 0 else "run")
    spec = parse_job({"name": line.id, **line.job})
    kind = spec.kind
    if line.estimate is not None:
        kind = msgspec.structs.replace(kind, estimated_duration=line.estimate)
    spec = msgspec.structs.replace(
        spec,
        kind=kinds.of(kind),
        not_before=None if line.not_before is None else line.at + line.not_before,
        deadline=None if line.deadline is None else line.at + line.deadline,
    )
    return SimJob(line.id, line.at, line.run, spec, line.fails, line.user)


def write_jsonl(workload: Workload, path: str | Path) -> None:
    """Write a workload; reading it gives the same jobs."""
    Path(path).write_bytes(b"".join(line + b"\n" for line in dump(workload)))


def dump(workload: Workload) -> Iterable[bytes]:
    """The lines of a file."""
    notes = dict(sorted(workload.notes.items()))
    head = Header(FORMAT, workload.name, workload.processors, workload.tick, tuple(workload.nodes), notes)
    # The first field tells what the file is, so it is there although it has its default.
    yield _encode({"headgate-workload": FORMAT, **msgspec.to_builtins(head)})
    for job in workload.jobs:
        yield _encode(_line_of(job))


def _line_of(job: SimJob) -> Line:
    spec, kind = job.spec, job.spec.kind
    given: dict[str, Any] = {}
    for field in ("type", "priority", "rank", "tenant", "units", "model_ref", "max_tokens", "pool", "checkpointable"):
        if getattr(kind, field) != getattr(_DEFAULTS, field):
            given[field] = getattr(kind, field)
    for field in ("resources", "requires", "labels"):
        if getattr(kind, field):
            given[field] = dict(getattr(kind, field))
    given |= _rest(spec, kind)
    return Line(
        job.id, job.at, job.run, kind.estimated_duration, job.fails, job.user,
        None if spec.not_before is None else spec.not_before - job.at,
        None if spec.deadline is None else spec.deadline - job.at,
        given,
    )  # fmt: skip


def _rest(spec: JobSpec, kind: JobKind) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if spec.name:
        given["name"] = spec.name
    if spec.dependencies:
        given["dependencies"] = list(spec.dependencies)
    if kind.on_dependency_failure != "fail":
        given["on_dependency_failure"] = kind.on_dependency_failure
    if kind.timeout is not None:
        given["timeout"] = kind.timeout / 1000
    if kind.retry != _DEFAULTS.retry:
        given["retry"] = {**msgspec.structs.asdict(kind.retry), "initial": kind.retry.initial / 1000,
                          "max": kind.retry.max / 1000}  # fmt: skip
    if spec.attributes != b"{}":
        given["attributes"] = msgspec.json.decode(spec.attributes)
    if spec.seed is not None:
        given["seed"] = spec.seed
    return given
