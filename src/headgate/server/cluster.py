"""Calls on pools, tenants and models."""

from __future__ import annotations

from headgate import views
from headgate.core import commands as c
from headgate.core.cluster import Gpu, ModelSpec, PoolReport
from headgate.core.errors import TenantNotFound
from headgate.core.job_input import LIMITS, text
from headgate.core.quantities import amount, resources
from headgate.core.tenants import Tenant, TenantSpec
from headgate.server import strict
from headgate.server.routing import Call, Reply, Routes, Urgency
from headgate.server.service import Service
from headgate.wire import http as w

routes = Routes()


# -- pools --------------------------------------------------------------------------------------------------------


@routes.add(
    "PUT", "/v2/pools/{id}", "work", body=w.PoolIn, replies={200: w.PoolOut}, urgency=Urgency.VITAL, tenants=False
)
async def report_pool(service: Service, call: Call) -> Reply:
    """A pool's heartbeat: the load of its machine, its GPUs, what it holds, which workers are alive on it."""
    given = strict.read_as(call.body, w.PoolIn)
    report = PoolReport(
        text(call["id"], "id", LIMITS),
        given.node[:256],
        given.busy,
        given.units,
        resources(given.resources, "resources"),
        tuple(_gpu(gpu) for gpu in given.gpus),
        tuple(given.cached_models),
        tuple(given.workers),
    )
    await service.engine.do(c.ReportPool(report))
    return Reply(_pool(service, call["id"]))


def _gpu(given: w.GpuIn) -> Gpu:
    total, allocated = (int(amount(getattr(given, f), f"gpus.{f}")) for f in ("vram_total", "vram_allocated"))
    name = text(given.id, "gpus.id", LIMITS)
    return Gpu(name, given.name[:256], total, allocated, given.utilization, given.temperature)


def _pool(service: Service, pool_id: str) -> w.PoolOut:
    return views.pool_out(service.state.pool(pool_id), views.workers_of(service.state, pool_id))


@routes.add("GET", "/v2/pools", "read", "work", replies={200: w.PoolsOut})
async def list_pools(service: Service, call: Call) -> Reply:
    """List pools."""
    return Reply(w.PoolsOut([_pool(service, id_) for id_ in service.state.pools]))


@routes.add("GET", "/v2/pools/{id}", "read", "work", replies={200: w.PoolOut})
async def get_pool(service: Service, call: Call) -> Reply:
    """One pool."""
    return Reply(_pool(service, call["id"]))


@routes.add("DELETE", "/v2/pools/{id}", "admin", replies={204: None}, audit=True)
async def remove_pool(service: Service, call: Call) -> Reply:
    """Forget a pool that has no workers."""
    await service.engine.do(c.RemovePool(call["id"]))
    return Reply(b"", 204)


# -- tenants ------------------------------------------------------------------------------------------------------


@routes.add("GET", "/v2/tenants", "read", replies={200: w.TenantsOut})
async def list_tenants(service: Service, call: Call) -> Reply:
    """List tenants: those with quotas, and those that have jobs."""
    tenants = service.state.tenants
    return Reply(w.TenantsOut([views.tenant_out(tenants[id_]) for id_ in sorted(tenants) if call.caller.sees(id_)]))


@routes.add("GET", "/v2/tenants/{id}", "read", replies={200: w.TenantOut})
async def get_tenant(service: Service, call: Call) -> Reply:
    """One tenant with its quotas and what it holds."""
    return Reply(views.tenant_out(_tenant(service, call)))


def _tenant(service: Service, call: Call) -> Tenant:
    if not call.caller.sees(call["id"]):
        raise TenantNotFound(f"there is no tenant {call['id']!r}", tenant_id=call["id"])
    return service.state.tenant(call["id"])


@routes.add("PUT", "/v2/tenants/{id}", "admin", body=w.TenantIn, replies={200: w.TenantOut}, audit=True)
async def set_tenant(service: Service, call: Call) -> Reply:
    """Set quotas and weight; they bind what is granted from now on."""
    given = strict.read_as(call.body, w.TenantIn)
    spec = TenantSpec(
        text(call["id"], "id", LIMITS),
        given.weight,
        given.max_units,
        given.max_leases,
        given.max_queued,
        _limits(given.max_resources),
    )
    await service.engine.do(c.SetTenant(spec))
    return Reply(views.tenant_out(service.state.tenant(call["id"])))


def _limits(given: dict[str, float | str]) -> tuple[tuple[str, int | float], ...]:
    """Unlike a need, a limit of zero means something."""
    named = ((text(name, "max_resources", LIMITS), value) for name, value in given.items())
    return tuple(sorted((name, amount(value, f"max_resources.{name}")) for name, value in named))


@routes.add("DELETE", "/v2/tenants/{id}", "admin", replies={204: None}, audit=True)
async def remove_tenant(service: Service, call: Call) -> Reply:
    """Back to no quotas and weight 1; its jobs stay."""
    await service.engine.do(c.RemoveTenant(call["id"]))
    return Reply(b"", 204)


# -- models -------------------------------------------------------------------------------------------------------


@routes.add("GET", "/v2/models", "read", "work", replies={200: w.ModelsOut})
async def list_models(service: Service, call: Call) -> Reply:
    """The model catalog."""
    return Reply(w.ModelsOut([_model(model) for model in service.state.models.values()]))


@routes.add("GET", "/v2/models/{id}", "read", "work", replies={200: w.ModelOut})
async def get_model(service: Service, call: Call) -> Reply:
    """One model, by its name or an alias."""
    return Reply(_model(service.state.model(call["id"])))


def _model(model: ModelSpec) -> w.ModelOut:
    return w.ModelOut(model.id, model.vram, list(model.aliases), dict(model.resources))


@routes.add("PUT", "/v2/models/{id}", "admin", body=w.ModelIn, replies={200: w.ModelOut}, audit=True)
async def set_model(service: Service, call: Call) -> Reply:
    """Enter a model into the catalog."""
    given = strict.read_as(call.body, w.ModelIn)
    spec = ModelSpec(
        text(call["id"], "id", LIMITS),
        int(amount(given.vram, "vram")),
        tuple(text(alias, "aliases", LIMITS) for alias in given.aliases),
        resources(given.resources, "resources"),
    )
    await service.engine.do(c.SetModel(spec))
    return Reply(_model(service.state.model(call["id"])))


@routes.add("DELETE", "/v2/models/{id}", "admin", replies={204: None}, audit=True)
async def remove_model(service: Service, call: Call) -> Reply:
    """Take a model out of the catalog."""
    await service.engine.do(c.RemoveModel(call["id"]))
    return Reply(b"", 204)
