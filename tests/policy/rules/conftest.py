"""A small world in real LuaJIT: enough of the contract to run compiled policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lupa import luajit21

from headgate.policy.rules import compile_source

_WORLD = """
KB, MB, GB, KiB, MiB, GiB = 1e3, 1e6, 1e9, 1024, 1048576, 1073741824
traced = {}
function trace(step) traced[#traced + 1] = step end
platform = { schedule = function(context) return { action = "wait", reason = "platform" } end }
local helpers = {}
function helpers.can_fit(job, worker)
  local need = job.estimated_vram or 0
  return need <= (worker.vram_free or math.huge)
end
function helpers.resolve_model(name)
  if name == "alias-of-m" then return "m" end
  return name
end
function helpers.check_quota(job)
  return job.tenant ~= "over-quota"
end
function helpers.find_victims(job)
  if job.class ~= "high" then return nil, "only a high job may preempt" end
  return { "running-low" }
end
return helpers
"""
_GROUPED = ("class", "tenant", "model_ref", "units")


def _to_lua(lua: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return lua.table_from({key: _to_lua(lua, item) for key, item in value.items() if item is not None})
    if isinstance(value, list):
        return lua.table_from([_to_lua(lua, item) for item in value])
    return value


def _to_python(value: Any) -> Any:
    if luajit21.lua_type(value) != "table":
        return value
    found = {key: _to_python(item) for key, item in value.items()}
    return list(found.values()) if found and list(found) == list(range(1, len(found) + 1)) else found


def _groups(lua: Any, queue: list[dict[str, Any]], jobs: Any) -> Any:
    groups: dict[tuple[Any, ...], Any] = {}
    for index, job in enumerate(queue, start=1):
        key = tuple(job.get(field) for field in _GROUPED)
        if key in groups:
            groups[key].count += 1
        else:
            groups[key] = lua.table_from({"head": jobs[index], "count": 1})
    return lua.table_from(list(groups.values()))


def decide(lua_source: str, world: dict[str, Any]) -> Any:
    """The answer of a Lua policy in a world given as plain data."""
    lua = luajit21.LuaRuntime()
    helpers = lua.execute(_WORLD)
    lua.execute(lua_source)
    context = _to_lua(lua, {"queue": [], "pools": [], "metrics": {}, "time": {}, "tenants": [], **world})
    context.groups = _groups(lua, world.get("queue", []), context.queue)
    context.helpers = helpers
    return _to_python(lua.globals().schedule(context))


@pytest.fixture
def run() -> Callable[..., Any]:
    """Compiles a YAML policy and asks it once."""

    def ask(source: str, **world: Any) -> Any:
        return decide(compile_source(source).lua, world)

    return ask


@pytest.fixture
def run_lua() -> Callable[..., Any]:
    """Asks a Lua policy once."""
    return lambda source, **world: decide(source, world)


def job(job_id: str, /, **fields: Any) -> dict[str, Any]:
    return {"id": job_id, "priority": "normal", "class": "normal", "tenant": "default", "units": 1, **fields}


def worker(worker_id: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "id": worker_id,
        "status": "ready",
        "slots_free": 1,
        "vram_free": 24,
        "current_jobs": [],
        **fields,
    }


def pool(*workers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "pool-1", "status": "ready", "workers": list(workers), "gpus": [], **fields}


@pytest.fixture
def build() -> Any:
    """Builders for jobs, workers and pools."""

    class Build:
        job = staticmethod(job)
        worker = staticmethod(worker)
        pool = staticmethod(pool)

    return Build
