"""Small, odd, shrinkable contexts for policies: what waits, who could run it, and what is left, as one value.

Built on the deltas that the engine itself sends, so a policy sees a scene exactly as it sees the real thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headgate.policy import deltas as d

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

NOW = 1_700_000_000_000
GB = 10**9
_CATALOG = (d.ModelSet("llama", 8 * GB, 2_000, ["llama-7b"]), d.ModelSet("llama-70b", 40 * GB))
_TENANTS = ("default", "acme")
_MODELS = ("llama", "llama-70b", "llama-7b", "nobody-knows")
_NAMES = ("", "ünïcode ✓", "'; drop table job; --", "a" * 200)

# A plain job, worker or scene, and what can be odd about it. One thing at a time, so that shrinking can take it away.
Traits = tuple[dict[str, Any], ...]


def _each(field: str, *values: object) -> Traits:
    return tuple({field: value} for value in values)


_JOB: Traits = (
    *({"priority": name, "class_index": index} for name, index in (("high", 0), ("low", 2), ("background", 3))),
    *({"priority": name, "class_index": index} for name, index in (("interactive", 0), ("batch", 2))),
    *_each("units", 0, 2, 5, 1_000),
    *_each("resources", {"cpu": 1}, {"cpu": 4, "memory": 4 * GB}, {"vram": 8 * GB}, {"slots": 2}, {"odd": 1}),
    *_each("model_ref", *_MODELS),
    *_each("tenant", "acme", "acme"),
    *_each("seed", 42, 0),
    *_each("rank", 5, -3),
    *_each("type", "proof"),
    *_each("name", *_NAMES),
    *_each("labels", {"tier": "gold"}),
    *_each("attributes", {"a": [1, {"b": None}]}),
    *_each("requires", {"zone": "a"}),
    *_each("pool", "pool-2"),
    *_each("external", True),
    *_each("waited", 5_000, 10_000_000),
    *_each("attempt", 1, 7),
    *_each("estimated_duration_ms", 1, 60_000, 10**9),
)
_WORKER: Traits = (
    *_each("held", 1, 2, 3, 4),
    *_each("slots", 2, 4),
    *_each("status", "draining", "starting", "failed", "offline"),
    *_each("model_ref", *_MODELS[:2]),
    *_each("resources_free", {"cpu": 4}, {"cpu": 8, "memory": 16 * GB, "vram": 24 * GB}, {"vram": 4 * GB}),
    *_each("labels", {"zone": "a"}),
    *_each("types", ["generic"]),
    *_each("pool_id", "pool-2"),
    *_each("class_index", 0, 2, 3),
    *_each("ends_in", 1_000, 1_000_000),
    *_each("jobs_completed", 7),
)
_SCENE: Traits = (
    *_each("usable_units", 0, 1, 5),
    *_each("quotas", *({"units": 2}, {"jobs": 1}, {"vram": 8 * GB}, {"units": 0})),
    *_each("acme_quotas", *({"units": 2}, {"jobs": 1}, {"vram": 8 * GB})),
    *_each("share", 0.5),
    *_each("models", _CATALOG, _CATALOG),
    *_each("gpus", 1, 2),
    *_each("preemption", False),
    *_each("hour", 0, 8, 23),
    *_each("weekday", 0, 6),
    *_each("seed", 1, 2),
)


class Scene(msgspec.Struct, frozen=True):
    """One context: queue, fleet, tenants, capacity and the question about them."""

    jobs: tuple[d.JobAdded, ...] = ()
    workers: tuple[d.WorkerSet, ...] = ()
    tenants: tuple[d.TenantSet, ...] = ()
    pools: tuple[d.PoolSet, ...] = ()
    models: tuple[d.ModelSet, ...] = ()
    usable_units: float = 100
    preemption: bool = True
    hour: int = 12
    weekday: int = 2
    seed: int = 0

    @property
    def leased_units(self) -> float:
        """Units held by what runs."""
        return sum(job.units for worker in self.workers for job in worker.current_jobs)

    @property
    def free_units(self) -> float:
        """Units that may still be granted."""
        return max(0, self.usable_units - self.leased_units)

    def model_of(self, ref: str | None) -> str | None:
        """The model behind a name: an alias and what it stands for are the same."""
        return next((model.ref for model in self.models if ref in model.aliases), ref)

    def deltas(self) -> list[d.Delta]:
        """The whole scene as the engine would tell it to a mirror."""
        metrics = {"usable_units": self.usable_units, "leased_units": self.leased_units, "free_units": self.free_units}
        return [
            d.Reset(),
            d.ConfigSet({"preemption": self.preemption}),
            *self.models,
            *self.tenants,
            *self.pools,
            *self.workers,
            *self.jobs,
            d.MetricsSet({**metrics, "busy_rating": 0, "avg_wait_ms": 0, "jobs_completed_last_minute": 0}),
        ]

    def question(self, max_answers: int = 64) -> d.Question:
        """The question; its time budget leaves the end of a cycle to the limit of the child."""
        return d.Question(NOW, self.seed, max_answers, 60_000, self.hour, self.weekday)


def strategies() -> Any:
    """Hypothesis's strategies; it is needed for property tests only, so it is not installed with Headgate."""
    try:
        from hypothesis import strategies as st  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ImportError("property tests of policies need hypothesis: pip install hypothesis") from error
    return st


def contexts(max_jobs: int = 6, max_workers: int = 4, max_traits: int = 4) -> SearchStrategy[Scene]:
    """A strategy of scenes: plain jobs and workers, each with a few odd traits that shrinking takes away again."""
    st = strategies()

    def some(traits: Traits) -> Any:
        return st.lists(st.sampled_from(traits), max_size=max_traits).map(_merged)

    scenes: SearchStrategy[Scene] = st.builds(
        _scene,
        st.lists(some(_JOB), max_size=max_jobs),
        st.lists(some(_WORKER), max_size=max_workers),
        some(_SCENE),
    )
    return scenes


def _merged(traits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for trait in reversed(traits) for name, value in trait.items()}


def _scene(jobs: list[dict[str, Any]], workers: list[dict[str, Any]], traits: dict[str, Any]) -> Scene:
    models, gpus = traits.pop("models", ()), traits.pop("gpus", 0)
    quotas = (traits.pop("quotas", {}), traits.pop("acme_quotas", {}))
    shares = (traits.pop("share", 0.0), 0.0)
    made = tuple(_worker(number, fields) for number, fields in enumerate(workers, 1))
    return Scene(
        jobs=tuple(_job(number, fields, models) for number, fields in enumerate(jobs, 1)),
        workers=made,
        tenants=tuple(_tenant(*given, made) for given in zip(_TENANTS, quotas, shares, strict=True)),
        pools=tuple(_pool(name, gpus) for name in ("pool-1", "pool-2")),
        models=models,
        **traits,
    )


def _job(number: int, fields: dict[str, Any], models: tuple[d.ModelSet, ...]) -> d.JobAdded:
    fields = {"class_index": 1, "rank": 0, "name": "job", "type": "generic", "priority": "normal", **fields}
    queued_at = NOW - fields.pop("waited", 0)
    needs = {name: model.vram for model in models for name in (model.ref, *model.aliases)}
    vram = fields.get("resources", {}).get("vram") or needs.get(fields.get("model_ref", ""))
    times = {"created_at": queued_at, "queued_at": queued_at}
    return d.JobAdded(f"job-{number}", seq=number, estimated_vram=vram, **times, **fields)


def _worker(number: int, fields: dict[str, Any]) -> d.WorkerSet:
    fields = {"pool_id": "pool-1", "status": "ready", "slots": 1, **fields}
    held = min(fields.pop("held", 0), fields["slots"])
    class_index, ends_in = fields.pop("class_index", 1), fields.pop("ends_in", None)
    ends_at = None if ends_in is None else NOW + ends_in
    running = [
        d.RunningJob(f"running-{number}-{place}", class_index, "default", 1, {}, NOW - 5_000, ends_at)
        for place in range(1, held + 1)
    ]
    if fields["status"] == "ready" and held == fields["slots"]:
        fields["status"] = "busy"  # as the engine shows it
    return d.WorkerSet(
        f"worker-{number}",
        slots_free=fields["slots"] - held,
        vram_free=fields.get("resources_free", {}).get("vram"),
        current_jobs=running,
        last_used_at=NOW - number,
        **fields,
    )


def _tenant(name: str, quotas: dict[str, float], share: float, workers: tuple[d.WorkerSet, ...]) -> d.TenantSet:
    held = sum(job.tenant == name for worker in workers for job in worker.current_jobs)
    return d.TenantSet(name, 1.0, share, quotas, {"jobs": held, "units": held})


def _pool(name: str, gpus: int) -> d.PoolSet:
    return d.PoolSet(name, "online", NOW, [d.Gpu(n, "L4", 24 * GB, 0, 24 * GB) for n in range(gpus)], ["llama"])
