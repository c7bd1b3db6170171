"""Workloads: real logs and traces, generated ones, our own history. Whatever is wrong in a file is counted and told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headgate.core.errors import InvalidInput
from headgate.sim.workloads.dag import read_psplib, read_stg, read_wfcommons
from headgate.sim.workloads.files import lines_of
from headgate.sim.workloads.gpu import read_openb, read_philly
from headgate.sim.workloads.jsonl import read_jsonl
from headgate.sim.workloads.llm import read_azure_llm, read_mooncake, read_serving_log
from headgate.sim.workloads.model import Workload, WorkloadError
from headgate.sim.workloads.swf import read_swf

READERS: dict[str, Callable[[str | Path], Workload]] = {
    "headgate": read_jsonl,
    "swf": read_swf,
    "azure-llm": read_azure_llm,
    "mooncake": read_mooncake,
    "serving-log": read_serving_log,
    "philly": read_philly,
    "openb": read_openb,
    "wfcommons": read_wfcommons,
    "stg": read_stg,
    "psplib": read_psplib,
}
_BY_ENDING = {".swf": "swf", ".stg": "stg", ".sm": "psplib"}
_BY_START = (
    ('"headgate-workload"', "headgate"),
    ("TIMESTAMP,ContextTokens", "azure-llm"),
    ("timestamp,duration,num_gpus", "philly"),
    ("name,cpu_milli,memory_mib", "openb"),
    ('"hash_ids"', "mooncake"),
    ('"arrival_ns"', "serving-log"),
)


def read_workload(path: str | Path, format: str | None = None) -> Workload:  # noqa: A002  # that is what it is called
    """Read a file; its format is told by its name or its first line unless it is given."""
    name = format or _guess(path)
    reader = READERS.get(name)
    if reader is None:
        raise InvalidInput(f"must be one of {', '.join(READERS)}", field="format")
    return reader(path)


def _guess(path: str | Path) -> str:
    plain = Path(str(path).removesuffix(".gz"))
    if plain.suffix in _BY_ENDING:
        return _BY_ENDING[plain.suffix]
    first = next(lines_of(path), (0, ""))[1]
    for start, name in _BY_START:
        if start in first[:4_000]:
            return name
    if first.startswith("{"):
        return "wfcommons"
    raise WorkloadError(f"{path}: the format is not known; name one of {', '.join(READERS)}", field="format")
