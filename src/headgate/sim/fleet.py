"""What happens in the simulated cluster by itself: workers die and come back, models load, others take their share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.cluster import Worker, WorkerSpec
from headgate.core.state import State
from headgate.sim.cluster import Cluster
from headgate.sim.records import Counts

R = TypeVar("R")
ENDS, CLUSTER, WAKE = 0, 1, 2
"""What comes first at one instant."""
_AGE_EVERY = 60
"""Ageing is looked at this often in the time after which a job ages."""


class Stage(Protocol):
    """What the fleet needs of the world."""

    cluster: Cluster
    state: State
    counts: Counts
    seed: int
    now: int

    def tell(self, command: c.Command[R]) -> R:
        """Give the core a command."""
        ...

    def later(self, at: int, rank: int, act: Callable[[Any], None], what: Any) -> None:
        """Have something happen at a time."""
        ...


class Fleet:
    """Workers, pools and their troubles."""

    def __init__(self, world: Stage) -> None:
        self._world = world
        self.dead: set[str] = set()
        """Workers that are gone, whether or not the engine knows."""

    def furnish(self) -> None:
        """Everything that is there before the first job."""
        cluster = self._world.cluster
        for model in cluster.models:
            self._world.tell(c.SetModel(model))
        for tenant in cluster.tenants:
            self._world.tell(c.SetTenant(tenant))
        for pool in cluster.pools:
            self._world.tell(c.ReportPool(pool))
        for spec in cluster.workers:
            self._world.tell(c.RegisterWorker(spec))
            self._plan_failure(spec.id)
        for outage in cluster.faults.outages:
            self._world.later(max(outage.at, self._world.now), CLUSTER, self._die, (outage.worker, outage.lasts))
        if cluster.load:
            past = [step for step in cluster.load if step[0] <= self._world.now]
            self._rate(max(past)[1] if past else 0.0)
        for at, busy in cluster.load:
            if at > self._world.now:
                self._world.later(at, CLUSTER, self._rate, busy)
        self._world.tell(c.Tick())
        if cluster.settings.ageing:
            self._look_at_age(None)

    def _look_at_age(self, _: None) -> None:
        self._world.tell(c.Tick())
        every = max(1, self._world.cluster.settings.ageing // _AGE_EVERY)
        self._world.later(self._world.now + every, WAKE, self._look_at_age, None)

    def _rate(self, busy: float) -> None:
        """The rest of the machine is this busy from now on; a rating falls slowly, so capacity is looked at again."""
        settings = self._world.state.settings
        threshold = settings.signals["cpu"]
        value = threshold.low + (threshold.high - threshold.low) * busy / 10
        self._world.tell(c.SampleLoad("load", {"cpu": value}))
        for step in range(1, 1 + 20 * settings.fall_half_life // settings.recalculate):
            self._world.later(self._world.now + step * settings.recalculate, CLUSTER, self._let_pass, None)

    def _let_pass(self, _: None) -> None:
        self._world.tell(c.Tick())

    def _plan_failure(self, worker_id: str) -> None:
        faults = self._world.cluster.faults
        if faults.worker_mtbf:
            chance = random.Random(f"{self._world.seed}/{worker_id}/{self._world.counts.worker_failures}")
            at = self._world.now + round(chance.expovariate(1 / faults.worker_mtbf))
            lasts = round(chance.expovariate(1 / faults.worker_repair))
            self._world.later(at, CLUSTER, self._die, (worker_id, lasts))

    def _die(self, what: tuple[str, int]) -> None:
        """A worker dies. The engine learns of it when its leases would expire."""
        worker_id, lasts = what
        worker = self._world.state.workers.get(worker_id)
        if worker is None or worker_id in self.dead:
            return
        self.dead.add(worker_id)
        self._world.counts.worker_failures += 1
        detected = self._world.now + self._world.cluster.delays.detect
        self._world.later(detected, CLUSTER, self._bury, worker_id)
        self._world.later(max(self._world.now + lasts, detected + 1), CLUSTER, self._revive, worker)

    def _bury(self, worker_id: str) -> None:
        if worker_id in self._world.state.workers:
            self._world.tell(c.FailWorker(worker_id, "it died"))

    def _revive(self, worker: Worker) -> None:
        self.dead.discard(worker.id)
        self._world.tell(c.RegisterWorker(worker.spec))
        self._plan_failure(worker.id)

    # -- workers for models -------------------------------------------------------------------------------------

    def worker_wanted(self, event: e.WorkerWanted) -> None:
        """The pool loads a model."""
        self._world.counts.model_loads += 1
        spec = event.spec
        cached = spec.model_ref in self._world.state.pools[spec.pool].report.cached_models
        self._world.later(self._world.now, CLUSTER, self._occupy, (spec, 1))
        delays = self._world.cluster.delays
        self._world.later(
            self._world.now + (delays.load_cached if cached else delays.load_model), CLUSTER, self.worker_ready, spec
        )

    def worker_ready(self, spec: WorkerSpec) -> None:
        """The model is loaded."""
        self._world.tell(c.RegisterWorker(msgspec.structs.replace(spec, slots=self._world.cluster.model_slots)))

    def worker_evicted(self, event: e.WorkerEvicted) -> None:
        """The worker leaves and gives its memory back."""
        self._world.counts.evictions += 1
        spec = self._world.state.workers[event.id].spec
        self._world.later(self._world.now + self._world.cluster.delays.unload, CLUSTER, self._unload, spec)

    def _unload(self, spec: WorkerSpec) -> None:
        self._world.tell(c.RemoveWorker(spec.id, force=True))
        self._occupy((spec, -1))

    def _occupy(self, what: tuple[WorkerSpec, int]) -> None:
        """The pool reports what a model takes of its GPU, and that it has the model on disk from now on."""
        spec, sign = what
        report = self._world.state.pools[spec.pool].report
        model = self._world.state.models.get(spec.model_ref or "")
        vram = sign * (model.vram if model is not None else 0)
        gpus = tuple(
            msgspec.structs.replace(gpu, vram_allocated=gpu.vram_allocated + vram) if gpu.id in spec.gpu_ids else gpu
            for gpu in report.gpus
        )
        cached = tuple(dict.fromkeys((*report.cached_models, spec.model_ref or "")))
        self._world.tell(c.ReportPool(msgspec.structs.replace(report, gpus=gpus, cached_models=cached)))
