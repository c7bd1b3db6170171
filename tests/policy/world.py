"""A small world that every test of the policy room can look at, and builders for others."""

from __future__ import annotations

from typing import Any

from headgate.policy.deltas import (
    ConfigSet,
    Delta,
    Gpu,
    JobAdded,
    MetricsSet,
    ModelSet,
    PoolSet,
    Question,
    RunningJob,
    TenantSet,
    WorkerSet,
)
from headgate.policy.runtime import USER, Runtime

GB = 1 << 30
NOW = 100_000


def job(number: int, class_index: int = 1, **fields: Any) -> JobAdded:
    return JobAdded(f"job-{number}", class_index, fields.pop("rank", 0), number, **fields)


def running(name: str, class_index: int = 2, **fields: Any) -> RunningJob:
    defaults: dict[str, Any] = {"tenant": "acme", "units": 1, "resources": {}, "started_at": NOW - 5_000}
    return RunningJob(name, class_index, **(defaults | fields))


def worker(name: str, **fields: Any) -> WorkerSet:
    defaults: dict[str, Any] = {"pool_id": "pool-1", "status": "ready"}
    return WorkerSet(name, **(defaults | fields))


def state() -> list[Delta]:
    """Three jobs, three workers in two pools, two tenants, two models."""
    return [
        ConfigSet({"preemption": True, "nested": {"list": [1, 2]}}),
        MetricsSet({"usable_units": 100, "leased_units": 10, "busy_rating": 2, "avg_wait_ms": 1_500}),
        MetricsSet({"jobs_completed_last_minute": 7}),
        ModelSet("llama-7b", 8 * GB, 2_000, ["llama"], {"family": "llama"}),
        ModelSet("llama-70b", 40 * GB),
        TenantSet("acme", 2.0, 0.1, {"units": 50, "vram": 20 * GB}, {"units": 10, "vram": 4 * GB}),
        TenantSet("zeta", 1.0, 0.4),
        PoolSet(
            "pool-1", "online", NOW - 300, [Gpu(0, "A100", 40 * GB, 16 * GB, 24 * GB, 0.5)], ["llama-7b"], {"zone": "a"}
        ),
        PoolSet(
            "pool-2", "online", NOW - 900, [Gpu(0, "L4", 24 * GB, 0, 24 * GB), Gpu(1, "L4", 24 * GB, 20 * GB, 4 * GB)]
        ),
        worker(
            "w-1", model_ref="llama-7b", slots=2, slots_free=2, vram_free=4 * GB, resources_free={"cpu": 8}, gpu_ids=[0]
        ),
        worker(
            "w-2",
            status="busy",
            model_ref="llama-7b",
            slots=2,
            slots_free=1,
            vram_free=2 * GB,
            resources_free={"cpu": 2},
            current_jobs=[running("r-1", resources={"cpu": 6}, ends_at=NOW + 4_000)],
            jobs_completed=9,
            last_used_at=NOW - 50,
        ),
        worker(
            "w-3",
            pool_id="pool-2",
            model_ref="llama-70b",
            slots=1,
            slots_free=1,
            labels={"tier": "gold"},
            last_used_at=50,
        ),
        job(
            1,
            name="first",
            type="generic",
            priority="normal",
            tenant="acme",
            units=2,
            resources={"cpu": 2},
            model_ref="llama",
            seed=42,
            max_tokens=256,
            labels={"team": "x"},
            attributes={"deep": {"list": ["a", "b"]}, "flag": True},
            created_at=NOW - 9_000,
            queued_at=NOW - 8_000,
            attempt=1,
            estimated_vram=2 * GB,
            estimated_duration_ms=3_000,
        ),
        job(2, 0, tenant="zeta", model_ref="llama-70b", priority="high", queued_at=NOW - 100),
        job(3, 3, tenant="acme", priority="background", queued_at=NOW + 5),
    ]


QUESTION = Question(NOW, seed=7, hour=13, weekday=2)


def runtime_with(*deltas: Delta) -> Runtime:
    runtime = Runtime()
    runtime.apply(list(deltas) or state())
    return runtime


def evaluate(runtime: Runtime, expression: str, before: str = "") -> str:
    """What an expression over `c` (the context) and `h` (its helpers) is, as text."""
    source = f"""
      local function show(v)
        if type(v) ~= "table" then return tostring(v) end
        local parts = {{}}
        for k, x in pairs(v) do parts[#parts + 1] = tostring(k) .. "=" .. show(x) end
        return "{{" .. table.concat(parts, ",") .. "}}"
      end
      function schedule(c)
        local h = c.helpers
        {before}
        local shown = {{}}
        local function collect(...)
          for i = 1, select("#", ...) do shown[i] = show((select(i, ...))) end
        end
        collect({expression})
        return {{ action = "wait", reason = table.concat(shown, " ") }}
      end"""
    runtime.load(source)
    answer = runtime.ask(QUESTION, USER)
    assert answer.error is None, answer.error
    reason = answer.actions[0]["reason"]
    assert isinstance(reason, str)
    return reason
