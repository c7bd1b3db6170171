"""Every field of the context, as the contract names it, and that none of it can be written."""

from __future__ import annotations

import pytest

from headgate.policy.runtime import Runtime
from tests.policy.world import GB, NOW, evaluate, runtime_with


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return runtime_with()


FIELDS = {
    # the first job of the world is second in the queue: a high one goes before it
    "j.id": "job-1",
    "j.name": "first",
    "j.type": "generic",
    "j.priority": "normal",
    "j.class": "normal",
    "j.rank": "0",
    "j.tenant": "acme",
    "j.units": "2",
    "j.resources": "{cpu=2}",
    "j.model_ref": "llama",
    "j.seed": "42",
    "j.max_tokens": "256",
    "j.labels": "{team=x}",
    "j.attributes": "{deep={list={1=a,2=b}},flag=true}",
    "j.attributes.deep.list[2]": "b",
    "#j.attributes.deep.list": "2",
    "j.created_at": str(NOW - 9_000),
    "j.queued_at": str(NOW - 8_000),
    "j.wait_ms": "8000",
    "j.attempt": "1",
    "j.estimated_vram": str(2 * GB),
    "j.estimated_duration_ms": "3000",
    "j.no_such_field": "nil",
    "c.queue[3].wait_ms": "0",
    "c.queue[1].seed": "nil",
    "c.queue[4]": "nil",
    "c.queue[0]": "nil",
    "c.queue[1.5]": "nil",
    "c.queue.x": "nil",
    "#c.queue": "3",
    "#c.groups": "3",
    "c.groups[2].class": "normal",
    "c.groups[2].tenant": "acme",
    "c.groups[2].model_ref": "llama",
    "c.groups[2].units": "2",
    "c.groups[2].resources": "{cpu=2}",
    "c.groups[2].count": "1",
    "c.groups[2].head.id": "job-1",
    "c.groups[2].jobs[1].id": "job-1",
    "#c.groups[2].jobs": "1",
    "c.pools[1].id": "pool-1",
    "c.pools[1].status": "online",
    "c.pools[1].heartbeat_age_ms": "300",
    "#c.pools[1].workers": "2",
    "c.pools[1].workers[2].id": "w-2",
    "c.pools[1].gpus[1].id": "0",
    "c.pools[1].gpus[1].name": "A100",
    "c.pools[1].gpus[1].vram_total": str(40 * GB),
    "c.pools[1].gpus[1].vram_allocated": str(16 * GB),
    "c.pools[1].gpus[1].vram_free": str(24 * GB),
    "c.pools[1].gpus[1].utilization": "0.5",
    "c.pools[1].cached_models": "{1=llama-7b}",
    "c.pools[1].labels": "{zone=a}",
    "w.id": "w-2",
    "w.pool_id": "pool-1",
    "w.status": "busy",
    "w.model_ref": "llama-7b",
    "w.slots": "2",
    "w.slots_free": "1",
    "w.vram_free": str(2 * GB),
    "w.resources_free": "{cpu=2}",
    "c.workers[1].gpu_ids": "{1=0}",
    "c.workers[3].labels": "{tier=gold}",
    "w.jobs_completed": "9",
    "w.last_used_at": str(NOW - 50),
    "w.current_jobs[1].id": "r-1",
    "w.current_jobs[1].class": "low",
    "w.current_jobs[1].tenant": "acme",
    "w.current_jobs[1].units": "1",
    "w.current_jobs[1].resources": "{cpu=6}",
    "w.current_jobs[1].started_at": str(NOW - 5_000),
    "w.current_jobs[1].running_ms": "5000",
    "w.current_jobs[1].ends_at": str(NOW + 4_000),
    "w.current_jobs[1].checkpointable": "false",
    "w.current_jobs[1].stopping": "false",
    "c.tenants[1].id": "acme",
    "c.tenants[1].weight": "2",
    "c.tenants[1].share": "0.1",
    "c.tenants[1].quotas.units": "50",
    "c.tenants[1].usage.units": "10",
    "c.tenants[1].quota_vram": str(20 * GB),
    "c.tenants[1].quota_used": str(4 * GB),
    "c.metrics.queue_depth": "3",
    "c.metrics.queue_depth_by_class": "{background=1,high=1,low=0,normal=1}",
    "c.metrics.total_workers": "3",
    "c.metrics.ready_workers": "2",
    "c.metrics.busy_workers": "1",
    "c.metrics.busy_rating": "2",
    "c.metrics.usable_units": "100",
    "c.metrics.leased_units": "10",
    "c.metrics.free_units": "90",
    "c.metrics.avg_wait_ms": "1500",
    "c.metrics.jobs_completed_last_minute": "7",
    "c.metrics.vram_total": str(88 * GB),
    "c.metrics.vram_allocated": str(36 * GB),
    "c.metrics.vram_free": str(52 * GB),
    "c.catalog.models['llama-7b'].vram": str(8 * GB),
    "c.catalog.models.llama.ref": "llama-7b",
    "c.catalog.models['llama-7b'].load_ms": "2000",
    "c.catalog.models['llama-7b'].aliases": "{1=llama}",
    "c.catalog.models['llama-7b'].attributes": "{family=llama}",
    "c.catalog.aliases": "{llama=llama-7b}",
    "c.config.preemption": "true",
    "c.config.nested.list[2]": "2",
    "c.now": str(NOW),
    "c.time.hour": "13",
    "c.time.weekday": "2",
    "KB, MB, GB": "1000 1000000 1000000000",
    "KiB, MiB, GiB": "1024 1048576 1073741824",
}


@pytest.mark.parametrize("expression", FIELDS)
def test_a_field_reads_as_the_engine_told_it(runtime: Runtime, expression: str) -> None:
    assert evaluate(runtime, expression, "local j, w = c.queue[2], c.workers[2]") == FIELDS[expression]


def test_the_queue_is_in_order_of_class_rank_and_submission(runtime: Runtime) -> None:
    walk = "for _, j in ipairs(c.queue) do ids[#ids + 1] = j.id end"
    assert evaluate(runtime, "table.concat(ids, ' ')", f"local ids = {{}} {walk}") == "job-2 job-1 job-3"


WRITES = [
    "c.queue = {}",
    "c.queue[1] = nil",
    "c.queue[1].units = 0",
    "c.queue[1].fresh = 0",
    "c.queue[2].labels.team = 1",
    "c.queue[2].resources.cpu = 0",
    "c.queue[2].attributes.deep.list[1] = 0",
    "c.groups[1] = nil",
    "c.groups[1].count = 0",
    "c.groups[1].jobs[1] = nil",
    "c.pools[1].status = ''",
    "c.pools[1].workers[1] = nil",
    "c.pools[1].gpus[1].vram_free = 0",
    "c.pools[1].cached_models[1] = ''",
    "c.workers[1].slots_free = 9",
    "c.workers[1].resources_free.cpu = 9",
    "c.workers[2].current_jobs[1].ends_at = 0",
    "c.tenants[1].share = 0",
    "c.tenants[1].quotas.units = 0",
    "c.metrics.queue_depth = 0",
    "c.metrics.queue_depth_by_class.high = 0",
    "c.catalog.models['llama-7b'].vram = 0",
    "c.catalog.models.new = 0",
    "c.catalog.aliases.new = 0",
    "c.config.preemption = false",
    "c.config.nested.list[1] = 0",
    "c.time.hour = 0",
    "c.helpers.can_fit = nil",
    "c.helpers.get_model('llama').vram = 0",
    "string.rep = nil",
    "table.extra = 1",
    "math.pi = 3",
    "platform.schedule = nil",
    "log.info = nil",
    "metrics.emit = nil",
    "new_global = 1",
    "_G.new_global = 1",
    "table.insert(c.queue, 1)",
    "table.insert(c.queue[1], 1)",
    "table.remove(c.groups)",
    "table.sort(c.queue)",
]


@pytest.mark.parametrize("write", WRITES)
def test_every_write_raises(runtime: Runtime, write: str) -> None:
    assert evaluate(runtime, "pcall(function() " + write + " end) == false") == "true"
