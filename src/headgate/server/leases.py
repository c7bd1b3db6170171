"""Calls on leases: claim one, and say what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from headgate import views
from headgate.core import commands as c
from headgate.core.actions import AnyReason, BusyGate, Stagger
from headgate.core.check import no_units
from headgate.core.errors import Conflict, HeadgateError, JobNotFound
from headgate.core.explain import explain
from headgate.core.lease import Lease
from headgate.core.states import TERMINAL, JobState
from headgate.engine.questions import GetJob
from headgate.server import strict
from headgate.server.privacy import may_speak_for
from headgate.server.problems import ClientGone, Forbidden
from headgate.server.routing import Call, Reply, Routes, Urgency
from headgate.server.service import Service
from headgate.server.tokens import Caller
from headgate.server.wording import Said, Wording
from headgate.wire import http as w
from headgate.wire.words import failure_of

routes = Routes()
H = TypeVar("H")
SHORTEST_WAIT = 0.1
"""Seconds that a claim waits where jobs are ready: a policy needs a moment to decide."""
RETRY = 1_000


class LeasesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose leases to list."""

    worker_id: str | None = None
    job_id: str | None = None


@routes.add("GET", "/v2/leases", "read", "work", query=LeasesQuery, replies={200: w.LeasesOut})
async def list_leases(service: Service, call: Call) -> Reply:
    """List live leases; tokens are shown to those who may work and speak for the lease."""
    asked, caller = call.query, call.caller
    found = [
        _seen(caller, lease)
        for lease in service.state.leases.values()
        if caller.sees(lease.tenant)
        and asked.worker_id in (None, lease.worker_id)
        and asked.job_id in (None, lease.job_id)
    ]
    return Reply(w.LeasesOut(found))


def _seen(caller: Caller, lease: Lease) -> w.LeaseOut:
    shown = views.lease_out(lease)
    if caller.scopes & {"work", "admin"} and may_speak_for(caller, lease):
        return shown
    return msgspec.structs.replace(shown, token=0)


@routes.add(
    "POST",
    "/v2/leases",
    "work",
    "submit",
    body=w.ClaimIn,
    replies={201: w.ClaimOut, 200: w.ClaimOut},
    urgency=Urgency.CLAIM,
)
async def claim(service: Service, call: Call) -> Reply:
    """Claim a lease: for a pulling worker the next job, with `job_id` an external job of one's own."""
    asked = strict.read_as(call.body, w.ClaimIn)
    wait = min(max(0.0, asked.wait_s), service.settings.max_wait)
    call.waited = True
    gone = asyncio.ensure_future(_gone(call))
    try:
        with service.intake.waiting():
            if asked.job_id is not None:
                return await _claim_job(service, call, asked.job_id, wait, gone)
            return await _claim_next(service, call, asked, wait, gone)
    finally:
        gone.cancel()


async def _gone(call: Call) -> None:
    if call.gone is not None:
        await call.gone()


async def _claim_next(service: Service, call: Call, asked: w.ClaimIn, wait: float, gone: asyncio.Future[None]) -> Reply:
    call.caller.allow(("work",), tenants=False)
    worker = service.state.worker(asked.worker_id)
    if worker.status == "offline":
        await service.engine.do(c.WorkerBeat(worker.id))
    if service.state.ready.size:
        wait = max(wait, SHORTEST_WAIT)
    lease = await service.deliveries.poll(worker.id, wait, gone)
    if lease is None:
        return _denied(_why_nothing(service, asked.worker_id))
    if gone.done() or (asked.max_units is not None and lease.units > asked.max_units):
        await _give_back(service, lease)
        if gone.done():
            raise ClientGone
        text = f"the next job takes {lease.units} units, {asked.max_units} are wanted at most"
        return _denied(w.Denied("too_large", text, RETRY))
    return await _granted(service, lease)


async def _give_back(service: Service, lease: Lease) -> None:
    try:
        await service.engine.do(c.Release(lease.id, lease.token))
    except HeadgateError as error:  # it ended by itself meanwhile
        service.log.info("lease-not-given-back", lease=lease.id, problem=error.code)


async def _claim_job(service: Service, call: Call, job_id: str, wait: float, gone: asyncio.Future[None]) -> Reply:
    info = await service.ask(GetJob(job_id))
    if not call.caller.sees(info.kind.tenant):
        raise JobNotFound(f"there is no job {job_id!r}", job_id=job_id)
    if not info.kind.external:
        raise Conflict(f"job {job_id} is not external: a worker gets it when its turn comes", job_id=job_id)
    if service.deliveries.leased(job_id) is None and wait:
        await service.deliveries.wait_for_job(job_id, wait, gone)
    job = service.state.jobs.get(job_id)
    if job is None or job.state in TERMINAL:
        raise Conflict(f"job {job_id} has ended", job_id=job_id, state=str(info.state if job is None else job.state))
    if job.state is JobState.RUNNING:
        raise Conflict(f"job {job_id} is running: its lease is held by somebody", job_id=job_id)
    lease_id = service.deliveries.leased(job_id)
    lease = None if lease_id is None else service.state.leases.get(lease_id)
    if lease is None:
        reasons = explain(service.state, job_id, service.now()).reasons
        return _denied(_in_words(service, reasons[0]) if reasons else w.Denied("not_granted", "not yet", RETRY))
    return await _granted(service, lease)


async def _granted(service: Service, lease: Lease) -> Reply:
    job = service.state.jobs[lease.job_id]
    return Reply(w.ClaimOut(views.lease_out(lease), views.live_job_out(job)), 201)


def _denied(denied: w.Denied) -> Reply:
    return Reply(w.ClaimOut(denied=denied), 200)


def _why_nothing(service: Service, worker_id: str) -> w.Denied:
    """Why a pulling worker got no lease."""
    state, now = service.state, service.now()
    worker = state.workers.get(worker_id)
    if worker is not None and worker.status != "ready":
        return w.Denied("worker_unfit", f"worker {worker_id} is {worker.status}", RETRY)
    if worker is not None and worker.slots_free <= 0:
        return w.Denied("worker_unfit", f"worker {worker_id} has no free slot", RETRY)
    shut = no_units(state, 1, now)
    if shut is not None:
        return _in_words(service, shut)
    if not state.ready.size:
        return w.Denied("no_work", "no job is ready", RETRY)
    return w.Denied("no_fitting_job", f"{state.ready.size} jobs are ready, none for this worker now", RETRY)


def _in_words(service: Service, reason: AnyReason) -> w.Denied:
    wait = RETRY
    if isinstance(reason, BusyGate):
        wait = service.state.settings.poll
    elif isinstance(reason, Stagger):
        wait = reason.wait
    return w.Denied(str(type(reason).__struct_config__.tag), reason.detail(), wait)


# -- words on a lease ---------------------------------------------------------------------------------------------


def _word(verb: str, body: type[Any], reply: Any) -> Callable[[H], H]:
    """Enter the call of a verb."""
    path = f"/v2/leases/{{id}}/{verb}"
    return routes.add("POST", path, "work", "submit", body=body, replies={200: reply}, urgency=Urgency.VITAL)


async def _say(service: Service, call: Call, said: Said) -> Any:
    """Carry out a word, if the caller may speak for the lease at all."""
    lease = service.state.leases.get(call["id"])
    if lease is not None and not may_speak_for(call.caller, lease):
        raise Forbidden("the lease is held by somebody whom this token may not speak for")
    wording = Wording(service.engine, service.settings.max_log)
    (reply,) = await wording.say([said])
    if isinstance(reply, Exception):
        raise reply
    return reply


@_word("start", w.TokenIn, w.BeatOut)
async def start(service: Service, call: Call) -> Reply:
    """The holder begins to work; starting twice is the same as once."""
    given = strict.read_as(call.body, w.TokenIn)
    await _say(service, call, Said(c.Start(call["id"], given.token)))
    lease = service.state.leases.get(call["id"])
    expires_at = 0.0 if lease is None else lease.expires_at / 1000
    return Reply(w.BeatOut(call["id"], expires_at))


@_word("heartbeat", w.TokenIn, w.BeatOut)
async def heartbeat(service: Service, call: Call) -> Reply:
    """The holder is alive: the lease holds for another TTL."""
    given = strict.read_as(call.body, w.TokenIn)
    return _beat(service, await _say(service, call, Said(c.Heartbeat(call["id"], given.token))))


def _beat(service: Service, beat: c.Beat) -> Reply:
    """How the lease stands; one of a worker that was evicted has to be let go of."""
    lease = service.state.leases.get(beat.lease_id)
    if lease is not None and beat.let_go_by is None and service.deliveries.has_to_leave(lease.worker_id):
        beat = msgspec.structs.replace(beat, let_go_by=service.now() + service.state.settings.preemption_grace)
    return Reply(views.beat_out(beat))


@_word("progress", w.ProgressIn, w.BeatOut)
async def progress(service: Service, call: Call) -> Reply:
    """How far the work is, which is a heartbeat too."""
    given = strict.read_as(call.body, w.ProgressIn)
    command = c.Progress(call["id"], given.token, given.fraction, given.note)
    return _beat(service, await _say(service, call, Said(command, given.log)))


@_word("complete", w.CompleteIn, w.SettledOut)
async def complete(service: Service, call: Call) -> Reply:
    """The work is done; the same word twice is the same as once."""
    given = strict.read_as(call.body, w.CompleteIn)
    await _say(service, call, Said(c.Complete(call["id"], given.token, bytes(given.result)), given.log))
    return Reply(w.SettledOut(call["id"], "complete"))


@_word("fail", w.FailIn, w.SettledOut)
async def fail(service: Service, call: Call) -> Reply:
    """The work failed; another attempt follows where the job allows one."""
    given = strict.read_as(call.body, w.FailIn)
    await _say(service, call, Said(c.Fail(call["id"], given.token, failure_of(given.error), given.retry), given.log))
    return Reply(w.SettledOut(call["id"], "fail"))


@_word("release", w.TokenIn, w.SettledOut)
async def release(service: Service, call: Call) -> Reply:
    """Give the lease back undone; the attempt does not count."""
    given = strict.read_as(call.body, w.TokenIn)
    await _say(service, call, Said(c.Release(call["id"], given.token)))
    return Reply(w.SettledOut(call["id"], "release"))
