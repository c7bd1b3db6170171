"""Workloads by formula: arrivals (Poisson, bursty, by the hour of the day) and jobs (Lublin-like, heavy-tailed, LLM).

Everything is drawn from one `random.Random(seed)`: the same call gives the same workload on any machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import msgspec

from headgate.core.errors import InvalidInput
from headgate.core.job import JobKind, JobSpec
from headgate.sim.workloads.llm import Costs, Requests
from headgate.sim.workloads.model import Kinds, SimJob, Workload

DAY = 86_400_000


class Shape(msgspec.Struct, frozen=True):
    """What to generate. Times are milliseconds."""

    jobs: int = 1_000
    processors: int = 64
    """The machine: no job asks for more."""
    load: float = 0.7
    """The share of the machine that the jobs ask for on average; sets the rate of arrival."""
    mean_run: int = 600_000
    tenants: int = 1
    overestimate: float = 3.0
    """Estimates are up to this many times the run time."""
    burst: float = 10.0
    """bursty: how much faster jobs come in a burst."""
    peak: float = 4.0
    """daily: the rate at 14:00 against the rate at 2:00."""


Arrivals = Callable[[random.Random, float, Shape], Iterator[int]]
Draw = Callable[[random.Random, Shape], tuple[int, int]]


# -- arrivals -------------------------------------------------------------------------------------------------------


def _poisson(chance: random.Random, mean_gap: float, _: Shape) -> Iterator[int]:
    at = 0.0
    while True:
        at += chance.expovariate(1 / mean_gap)
        yield round(at)


def _bursty(chance: random.Random, mean_gap: float, shape: Shape) -> Iterator[int]:
    """Two states, fast and slow, each lasting for 50 jobs on average; half of the jobs come in bursts."""
    fast = 2 * mean_gap / (1 + shape.burst)
    at, in_burst = 0.0, False
    while True:
        in_burst = not in_burst if chance.random() < 0.02 else in_burst
        at += chance.expovariate(1 / (fast if in_burst else fast * shape.burst))
        yield round(at)


def _daily(chance: random.Random, mean_gap: float, shape: Shape) -> Iterator[int]:
    """A Poisson process whose rate follows a cosine with its top at 14:00, by thinning."""
    swing = (shape.peak - 1) / (shape.peak + 1)
    at = 0.0
    while True:
        at += chance.expovariate((1 + swing) / mean_gap)
        rate = 1 + swing * math.cos(2 * math.pi * (at / DAY - 14 / 24))
        if chance.random() * (1 + swing) <= rate:
            yield round(at)


# -- jobs -----------------------------------------------------------------------------------------------------------


def _exponential(chance: random.Random, shape: Shape) -> tuple[int, int]:
    return 1, max(1, round(chance.expovariate(1 / shape.mean_run)))


def _lublin(chance: random.Random, shape: Shape) -> tuple[int, int]:
    """After Lublin and Feitelson: a quarter is serial, sizes love powers of two, long jobs are wide."""
    top = math.log2(shape.processors)
    if chance.random() < 0.244 or top < 1:
        size = 1
    else:
        middle = max(0.8, top - 2.5)
        low, high = (0.8, middle) if chance.random() < 0.86 else (middle, top)
        power = chance.uniform(low, high)
        size = 2 ** round(power) if chance.random() < 0.576 else round(2**power)
    size = max(1, min(shape.processors, size))
    # A hyper-gamma of run times whose mixture depends on the size.
    p = min(0.99, max(0.01, 0.78 - 0.0054 * size))
    alpha, beta = (4.2, 0.94) if chance.random() < p else (312.0, 0.03)
    seconds = math.exp(min(chance.gammavariate(alpha, beta), 12.0))
    mean_seconds = 4_000.0
    return size, max(1, round(seconds / mean_seconds * shape.mean_run))


def _heavy(chance: random.Random, shape: Shape) -> tuple[int, int]:
    """Bounded Pareto run times (exponent 1.2): a few jobs hold most of the work."""
    low, alpha, longest = shape.mean_run / 4, 1.2, shape.mean_run * 1_000
    run = low / (1 - chance.random() * (1 - (low / longest) ** alpha)) ** (1 / alpha)
    size = min(shape.processors, 2 ** min(10, int(chance.expovariate(1.0))))
    return size, max(1, round(run))


_MODELS: dict[str, tuple[Arrivals, Draw]] = {
    "poisson": (_poisson, _exponential),
    "bursty": (_bursty, _exponential),
    "daily": (_daily, _exponential),
    "lublin": (_daily, _lublin),
    "heavy": (_poisson, _heavy),
}
GENERATORS = (*_MODELS, "llm")
_LIMITS = (
    ("jobs", 0, 100_000_000), ("processors", 1, 2**53), ("load", 1e-6, 1_000), ("mean_run", 1, 2**53),
    ("tenants", 1, 1_000_000), ("overestimate", 0, 1_000_000), ("burst", 1e-6, 1_000_000), ("peak", 1, 1_000_000),
)  # fmt: skip


def generate(model: str, seed: int = 0, shape: Shape | None = None, costs: Costs | None = None) -> Workload:
    """A workload of a model: `poisson`, `bursty`, `daily`, `lublin`, `heavy` or `llm`."""
    shape = shape or Shape()
    if model not in GENERATORS:
        raise InvalidInput(f"must be one of {', '.join(GENERATORS)}", field="model")
    _check(shape)
    chance = random.Random(f"{model}/{seed}")
    if model == "llm":
        return _requests(chance, seed, shape, costs or Costs())
    arrivals, draw = _MODELS[model]
    drawn = [draw(chance, shape) for _ in range(shape.jobs)]
    work = sum(size * run for size, run in drawn) / max(1, len(drawn))
    times = arrivals(chance, work / (shape.processors * shape.load), shape)
    kinds = Kinds()
    jobs = [_job(number, at, size, run, chance, shape, kinds) for number, ((size, run), at)
            in enumerate(zip(drawn, times, strict=False))]  # fmt: skip
    return Workload(f"{model}-{seed}", jobs, shape.processors, notes={"generator": model, "seed": str(seed)})


def _check(shape: Shape) -> None:
    for field, least, most in _LIMITS:
        value = getattr(shape, field)
        if not least <= value <= most:  # nor is NaN
            raise InvalidInput(f"must be between {least:g} and {most:,}", field=field)


def _job(number: int, at: int, size: int, run: int, chance: random.Random, shape: Shape, kinds: Kinds) -> SimJob:
    # People ask for round times: the next quarter of an hour, or the next second where jobs are short.
    grain = 900_000 if shape.mean_run > 60_000 else 1_000
    wanted = run * chance.uniform(1.0, max(1.0, shape.overestimate))
    tenant = "default" if shape.tenants == 1 else f"t{min(shape.tenants - 1, int(chance.expovariate(1.0)))}"
    kind = JobKind(
        type="batch", tenant=tenant, units=size, estimated_duration=math.ceil(wanted / grain) * grain
    )  # fmt: skip
    name = f"j{number:07}"
    return SimJob(name, at, run, JobSpec(kinds.of(kind), name), user=tenant)


def _requests(chance: random.Random, seed: int, shape: Shape, costs: Costs) -> Workload:
    """Prompts and answers of log-normal length, as chats have them; requests come by a bursty process."""
    requests = Requests(costs)
    tokens = [
        (max(1, round(chance.lognormvariate(6.5, 1.0))), max(1, round(chance.lognormvariate(4.9, 0.9))))
        for _ in range(shape.jobs)
    ]
    mean = sum(costs.run(*pair) for pair in tokens) / max(1, len(tokens))
    times = _bursty(chance, mean / (shape.processors * shape.load), shape)
    for pair, at in zip(tokens, times, strict=False):
        requests.add(at, *pair)
    return Workload(f"llm-{seed}", requests.jobs, shape.processors, notes={"generator": "llm", "seed": str(seed)})
