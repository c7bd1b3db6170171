"""What a token that is bound to a tenant is shown of things that are not that tenant's alone."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.core.actions import AnyReason, MakingRoom
from headgate.core.explain import Explanation
from headgate.core.lease import Lease
from headgate.core.state import State
from headgate.server.tokens import Caller
from headgate.wire.http import EventOut

_SOMEBODYS = "a job of another tenant"
_OF_THE_TRIP = ("at", "version", "kind")
"""What everybody may know of a policy that was taken out; its message may speak of anybody's jobs."""


def may_speak_for(caller: Caller, lease: Lease) -> bool:
    """Workers speak for what workers hold; whoever submits, or is bound to a tenant, only for external leases."""
    if not caller.sees(lease.tenant):
        return False
    works = caller.tenant is None and bool(caller.scopes & {"work", "admin"})
    return works or lease.worker_id is None


def owns(caller: Caller, state: State, job_id: str) -> bool:
    """Whether a live job exists for the caller."""
    job = state.jobs.get(job_id)
    return job is not None and caller.sees(job.kind.of.tenant)


def own_leases(caller: Caller, state: State, lease_ids: list[str]) -> list[str]:
    """Those among leases that exist for the caller."""
    return [id_ for id_ in lease_ids if (lease := state.leases.get(id_)) is not None and caller.sees(lease.tenant)]


def explanation_for(caller: Caller, state: State, found: Explanation) -> Explanation:
    """An explanation that names no job of others."""
    if caller.tenant is None:
        return found

    def shown(reason: AnyReason) -> AnyReason:
        if not isinstance(reason, MakingRoom):
            return reason
        return MakingRoom(tuple(id_ if owns(caller, state, id_) else _SOMEBODYS for id_ in reason.victims))

    return msgspec.structs.replace(found, reasons=tuple(shown(reason) for reason in found.reasons))


def event_for(caller: Caller, state: State, event: EventOut) -> EventOut:
    """An event that names no job of others."""
    other = event.data.get("for_job")
    if caller.tenant is None or other is None or owns(caller, state, str(other)):
        return event
    return msgspec.structs.replace(event, data={**event.data, "for_job": _SOMEBODYS})


def policy_for(caller: Caller, policy: dict[str, Any]) -> dict[str, Any]:
    """Who decides, without what a policy said of others' jobs."""
    tripped = policy.get("tripped")
    if caller.tenant is None or tripped is None:
        return policy
    return {**policy, "tripped": {name: tripped[name] for name in _OF_THE_TRIP if name in tripped}}
