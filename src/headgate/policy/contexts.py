"""Generated contexts: empty, small, odd and large states on which a policy is tried before it decides anything."""

from __future__ import annotations

import random
from collections.abc import Iterator

from headgate.policy import deltas as d

GB = 1 << 30
NOW = 1_700_000_000_000
_PRIORITIES = (("high", 0), ("interactive", 0), ("normal", 1), ("low", 2), ("batch", 2), ("background", 3))
_MODELS = (None, None, "llama-7b", "llama-70b", "unknown-model")
_TENANTS = ("default", "acme", "zeta")
_NEEDS: list[dict[str, float]] = [{}, {}, {"cpu": 1}, {"memory": 4 * GB, "cpu": 0.5}, {"vram": 8 * GB}, {"odd": 1}]
_OFFERS: tuple[dict[str, float], ...] = ({}, {"cpu": 4}, {"cpu": 8, "memory": 16 * GB, "vram": 24 * GB})
_QUOTAS: tuple[dict[str, float], ...] = ({}, {}, {"units": 10}, {"vram": 16 * GB, "jobs": 2})
_ODD_NAMES = ("", "a" * 200, "ünïcode ✓", "'; drop table job; --", "\t")


def context(seed: int) -> list[d.Delta]:
    """One state. Seeds 0 and 1 are the emptiest; others vary in size and oddity."""
    chance = random.Random(seed)
    if seed == 0:
        return []
    jobs = 0 if seed == 1 else chance.choice((0, 1, 2, 3, 5, 8, 20, 60))
    workers = 0 if seed == 2 else chance.choice((0, 1, 2, 3, 6, 12))
    return [
        d.ConfigSet({"preemption": chance.random() < 0.5}),
        *_models(chance),
        *(_tenant(chance, name) for name in _TENANTS),
        *(_pool(chance, f"pool-{n}") for n in range(2)),
        *(_worker(chance, n) for n in range(workers)),
        *(_job(chance, n) for n in range(jobs)),
        _metrics(chance),
    ]


def crowd(jobs: int, workers: int = 16, seed: int = 1) -> Iterator[d.Delta]:
    """A large state with few free slots, for measuring."""
    chance = random.Random(seed)
    yield d.MetricsSet({"usable_units": 1_000_000, "leased_units": 0, "free_units": 1_000_000, "busy_rating": 0})
    yield from (_tenant(chance, name) for name in _TENANTS)
    yield from (_pool(chance, f"pool-{n}") for n in range(2))
    for number in range(workers):
        yield d.WorkerSet(f"w-{number}", f"pool-{number % 2}", "ready", slots=4, slots_free=1)
    yield from (_plain_job(chance, number) for number in range(jobs))


def question(seed: int, *, max_answers: int = 64) -> d.Question:
    """A question that goes with a generated context."""
    chance = random.Random(-seed)
    return d.Question(NOW, seed, max_answers, 20, chance.randrange(24), chance.randrange(7))


def _plain_job(chance: random.Random, number: int) -> d.JobAdded:
    priority, class_index = chance.choice(_PRIORITIES)
    seed = number if number % 97 == 0 else None
    return d.JobAdded(
        f"job-{number}", class_index, 0, number, priority=priority, tenant=chance.choice(_TENANTS), seed=seed
    )


def _job(chance: random.Random, number: int) -> d.JobAdded:
    priority, class_index = chance.choice(_PRIORITIES)
    odd = chance.random() < 0.1
    return d.JobAdded(
        f"job-{number}",
        class_index,
        chance.choice((0, 0, 0, 5, -3)),
        number,
        name=chance.choice(_ODD_NAMES) if odd else f"name-{number}",
        type=chance.choice(("generic", "proof_verification", "data_processing")),
        priority=priority,
        tenant=chance.choice(_TENANTS),
        units=chance.choice((0, 1, 1, 5, 50, 10_000)),
        resources=chance.choice(_NEEDS),
        model_ref=chance.choice(_MODELS),
        seed=chance.choice((None, None, 0, 42, -1)),
        max_tokens=chance.choice((None, 128, 100_000)),
        labels=chance.choice(({}, {"tier": "gold"}, {"tier": "silver", "team": "x"})),
        attributes=chance.choice(({}, {"a": [1, {"b": None}]}, {"cost": 3.5})),
        created_at=NOW - chance.randrange(10_000_000),
        queued_at=NOW - chance.randrange(1_000_000),
        attempt=chance.choice((0, 0, 1, 7)),
        estimated_vram=chance.choice((None, None, 6 * GB)),
        estimated_duration_ms=chance.choice((None, 1, 60_000, 10**9)),
    )


def _worker(chance: random.Random, number: int) -> d.WorkerSet:
    slots = chance.choice((1, 1, 2, 4))
    held = chance.randrange(slots + 1)
    return d.WorkerSet(
        f"w-{number}",
        f"pool-{chance.randrange(2)}",
        chance.choice(("ready", "ready", "ready", "busy", "starting", "draining", "failed", "offline")),
        model_ref=chance.choice(_MODELS[:-1]),
        slots=slots,
        slots_free=slots - held,
        vram_free=chance.choice((None, 0, 8 * GB, 40 * GB)),
        resources_free=chance.choice(_OFFERS),
        labels=chance.choice(({}, {"zone": "a"})),
        current_jobs=[_running(chance, f"run-{number}-{n}") for n in range(held)],
        jobs_completed=chance.randrange(1_000),
        last_used_at=NOW - chance.randrange(1_000_000),
    )


def _running(chance: random.Random, name: str) -> d.RunningJob:
    return d.RunningJob(
        name,
        chance.randrange(4),
        chance.choice(_TENANTS),
        chance.choice((1, 5)),
        {},
        NOW - chance.randrange(600_000),
        chance.choice((None, NOW + 1_000, NOW + 1_000_000)),
        chance.random() < 0.5,
        chance.random() < 0.1,
    )


def _pool(chance: random.Random, name: str) -> d.PoolSet:
    gpus = [d.Gpu(n, "L4", 24 * GB, n * 8 * GB, (3 - n) * 8 * GB, 0.3) for n in range(chance.randrange(3))]
    status = chance.choice(("online", "online", "degraded", "offline"))
    return d.PoolSet(name, status, NOW - chance.randrange(60_000), gpus, ["llama-7b"])


def _tenant(chance: random.Random, name: str) -> d.TenantSet:
    weight, share = chance.choice((0.5, 1.0, 3.0)), chance.random()
    return d.TenantSet(name, weight, share, chance.choice(_QUOTAS), {"units": 2, "jobs": 1})


def _models(chance: random.Random) -> list[d.ModelSet]:
    return [d.ModelSet("llama-7b", 8 * GB, 2_000, ["llama"]), d.ModelSet("llama-70b", 40 * GB)][: chance.randrange(3)]


def _metrics(chance: random.Random) -> d.MetricsSet:
    usable = chance.choice((0, 1, 10, 100))
    leased, busy = min(usable, 5), chance.random() * 10
    return d.MetricsSet(
        {"usable_units": usable, "leased_units": leased, "free_units": usable - leased, "busy_rating": busy}
    )
