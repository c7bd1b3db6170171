"""Requests to language models: the Azure inference traces, the Mooncake traces, and request logs of serving benchmarks.

A trace has tokens, not seconds. `Costs` turns tokens into the time that a request takes of a slot; everything else is
kept in the job's attributes (`input_tokens`, `output_tokens`, `blocks`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from headgate.core.job import JobKind, JobSpec
from headgate.sim.workloads.files import lines_of, rows_of, stem_of
from headgate.sim.workloads.model import Kinds, Problems, SimJob, Workload, in_order

_encode = msgspec.json.Encoder().encode


class Costs(msgspec.Struct, frozen=True):
    """How long tokens take, in microseconds; the defaults are those of a 7B model on one recent GPU."""

    prefill_us: float = 100.0
    """For each token of the prompt."""
    decode_us: float = 25_000.0
    """For each token that is generated."""
    model: str | None = None
    units: int = 1

    def run(self, input_tokens: int, output_tokens: int) -> int:
        """Milliseconds that a request takes."""
        return max(1, round((input_tokens * self.prefill_us + output_tokens * self.decode_us) / 1000))


class Requests:
    """Makes jobs of requests. Their estimate is rounded up to a second, as nobody knows the output beforehand."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._kinds = Kinds()
        self.jobs: list[SimJob] = []

    def add(self, at: int, input_tokens: int, output_tokens: int, blocks: list[int] | None = None) -> None:
        """One request."""
        costs = self._costs
        run = costs.run(input_tokens, output_tokens)
        attributes: dict[str, Any] = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        if blocks:
            attributes["blocks"] = blocks
        kind = JobKind(type="llm", model_ref=costs.model, units=costs.units, estimated_duration=-(-run // 1000) * 1000)
        number = f"r{len(self.jobs):07}"
        self.jobs.append(SimJob(number, at, run, JobSpec(self._kinds.of(kind), number, attributes=_encode(attributes))))


def read_azure_llm(path: str | Path, costs: Costs | None = None) -> Workload:
    """`TIMESTAMP,ContextTokens,GeneratedTokens`; time begins with the first request."""
    problems, requests, first = Problems(), Requests(costs or Costs()), None
    for number, row in rows_of(path, "TIMESTAMP", "ContextTokens", "GeneratedTokens"):
        try:
            at = _milliseconds(row["TIMESTAMP"])
            tokens = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        except ValueError as error:
            problems.add("row", number, f"{error}; left out")
            continue
        first = at if first is None else first
        if at < first or min(tokens) < 0:
            problems.add("value", number, "before the first request, or tokens below zero; left out")
            continue
        requests.add(at - first, *tokens)
    return Workload(stem_of(path), in_order(requests.jobs), problems=problems)


def _milliseconds(text: str) -> int:
    """Seven digits of a second are one more than Python reads."""
    whole, _, fraction = text.partition(".")
    when = datetime.fromisoformat(whole).replace(tzinfo=UTC)
    return int(when.timestamp()) * 1000 + int(float(f"0.{fraction or 0}") * 1000)


def read_mooncake(path: str | Path, costs: Costs | None = None) -> Workload:
    """`timestamp` (ms), `input_length`, `output_length`, `hash_ids` (512-token blocks of the prompt)."""

    def take(row: dict[str, Any], requests: Requests) -> None:
        blocks = [int(block) for block in row.get("hash_ids", ())]
        requests.add(int(row["timestamp"]), int(row["input_length"]), int(row["output_length"]), blocks)

    return _json_lines(path, costs, take)


def read_serving_log(path: str | Path, costs: Costs | None = None) -> Workload:
    """`arrival_ns`, `input_toks`, `output_toks`, `block16_ids`."""

    def take(row: dict[str, Any], requests: Requests) -> None:
        blocks = [int(block) for block in row.get("block16_ids", ())]
        requests.add(int(row["arrival_ns"]) // 1_000_000, int(row["input_toks"]), int(row["output_toks"]), blocks)

    return _json_lines(path, costs, take)


def _json_lines(path: str | Path, costs: Costs | None, take: Callable[[dict[str, Any], Requests], None]) -> Workload:
    problems, requests = Problems(), Requests(costs or Costs())
    for number, line in lines_of(path):
        try:
            take(msgspec.json.decode(line, type=dict[str, Any]), requests)
        except (msgspec.DecodeError, KeyError, ValueError, TypeError) as error:
            problems.add("row", number, f"{type(error).__name__}: {error}; left out")
    return Workload(stem_of(path), in_order(requests.jobs), problems=problems)


class PrefixHits(msgspec.Struct, frozen=True):
    """What a prefix cache without limit would have spared."""

    blocks: float
    tokens: float


def prefix_hits(workload: Workload, block_tokens: int = 512) -> PrefixHits:
    """The share of the prompts' blocks and tokens that an earlier request had brought already."""
    seen: set[int] = set()
    blocks = hit_blocks = tokens = hit_tokens = 0
    for job in workload.jobs:
        given = msgspec.json.decode(job.spec.attributes)
        left = given["input_tokens"]
        tokens += left
        fresh = False
        for block in given.get("blocks", ()):
            size = min(block_tokens, left)
            left -= size
            blocks += 1
            fresh = fresh or block not in seen
            if not fresh:
                hit_blocks += 1
                hit_tokens += size
            seen.add(block)
    return PrefixHits(hit_blocks / max(1, blocks), hit_tokens / max(1, tokens))
