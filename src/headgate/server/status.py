"""One look at everything: status, capacity, load, health, metrics."""

from __future__ import annotations

import msgspec

from headgate import views
from headgate.engine.questions import GetStatus, Status, answer
from headgate.server import strict
from headgate.server.metrics import MEDIA
from headgate.server.privacy import policy_for
from headgate.server.routing import Call, Reply, Routes, Urgency
from headgate.server.service import Service
from headgate.server.tokens import Caller
from headgate.wire import http as w

routes = Routes()


def look(service: Service) -> Status:
    """Figures of the moment."""
    return answer(GetStatus(), service.state, service.engine.writer.store, service.now())


def status_out(service: Service, caller: Caller) -> w.StatusOut:
    """One look at everything, also while the engine does not serve."""
    return views.status_out(
        look(service), policy_for(caller, service.live.policy()), trouble(service), _policy_trouble(service)
    )


def trouble(service: Service) -> str | None:
    """Why the engine cannot commit, if it cannot."""
    stopped = service.engine.writer.stopped
    return service.engine.problem or (None if stopped is None else str(stopped))


def _policy_trouble(service: Service) -> list[str]:
    if not service.has_policies:
        return []
    status = service.policies.status()
    found = [status.problem] if status.problem else []
    if status.tripped is not None:
        found.append(f"policy {status.tripped.version} was taken out: {status.tripped.kind}")
    return [*found, *(status.host.degraded if status.host is not None else [])]


@routes.add("GET", "/v2/status", "read", "work", "submit", replies={200: w.StatusOut})
async def get_status(service: Service, call: Call) -> Reply:
    """Busy rating and its signals, units, depth by class, workers, the active policy, and what is degraded."""
    return Reply(status_out(service, call.caller))


@routes.add("GET", "/v2/capacity", "read", "work", "submit", replies={200: w.CapacityOut})
async def get_capacity(service: Service, call: Call) -> Reply:
    """The gate: the busy rating, what it leaves and what is taken."""
    return Reply(views.capacity_out(look(service)))


@routes.add(
    "POST", "/v2/load", "work", "submit", body=w.LoadIn, replies={200: w.LoadOut}, urgency=Urgency.SUBMIT, tenants=False
)
async def report_load(service: Service, call: Call) -> Reply:
    """A sample of an application's own latency, requests in flight and errors."""
    return Reply(w.LoadOut(await service.load.report(strict.read_as(call.body, w.LoadIn))))


class HealthOut(msgspec.Struct, frozen=True):
    """Whether the server lives, or is ready."""

    ok: bool
    problem: str = ""


@routes.add("GET", "/healthz", replies={200: HealthOut}, urgency=Urgency.VITAL)
async def healthz(service: Service, call: Call) -> Reply:
    """The process is alive and answers."""
    return Reply(HealthOut(ok=True))


@routes.add("GET", "/readyz", replies={200: HealthOut, 503: HealthOut}, urgency=Urgency.VITAL)
async def readyz(service: Service, call: Call) -> Reply:
    """The store commits and the engine serves; otherwise 503."""
    problem = trouble(service)
    return Reply(
        HealthOut(problem is None, "" if problem is None else "the engine cannot commit"), 503 if problem else 200
    )


@routes.add("GET", "/metrics", "read", replies={200: str}, media="text/plain", tenants=False)
async def metrics(service: Service, call: Call) -> Reply:
    """Prometheus metrics, see reference/metrics."""
    return Reply(service.metrics.render(), media=MEDIA)
