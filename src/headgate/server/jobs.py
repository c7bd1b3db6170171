"""Calls on jobs: submit, look, explain, cancel, retry, change."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headgate import views
from headgate.core import commands as c
from headgate.core import quantities
from headgate.core.errors import IllegalTransition, InvalidInput, InvalidJob, JobNotFound
from headgate.core.explain import never_starts
from headgate.core.job import CLASSES
from headgate.core.job_input import LIMITS, long_text, pairs
from headgate.core.job_input import parse_job as parse
from headgate.core.states import JobState
from headgate.engine.questions import Explain, FindEvents, FindJobs, GetHistory, GetJob, JobInfo, answer, ended
from headgate.ports import JobQuery
from headgate.server import privacy, strict
from headgate.server.records import read_after
from headgate.server.routing import Call, Reply, Routes, Urgency
from headgate.server.service import Service
from headgate.server.submitting import submit_jobs
from headgate.wire import http as w

routes = Routes()
_MOST_WARNINGS = 10
LOG = "log"
"""The kind of record that holds the output of jobs."""
Limit = Annotated[int, Meta(ge=1, le=1_000)]
State = Literal["blocked", "queued", "leased", "running", "completed", "failed", "expired", "cancelled"]
Class = Literal["high", "normal", "low", "background"]


class JobsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs to list; several values may be separated by commas."""

    state: tuple[State, ...] = ()
    classes: tuple[Class, ...] = msgspec.field(default=(), name="class")
    tenant: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    name: str | None = None
    created_from: float | None = None
    created_to: float | None = None
    ended_from: float | None = None
    ended_to: float | None = None
    order: Literal["newest", "oldest"] = "newest"
    after: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    limit: Limit = 100


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to go on, and how far."""

    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    limit: Limit = 1_000


@routes.add(
    "POST",
    "/v2/jobs",
    "submit",
    body=w.JobIn | list[w.JobIn],
    replies={201: (w.SubmittedJobOut, w.SubmittedOut)},
    urgency=Urgency.SUBMIT,
    headers=("Idempotency-Key",),
)
async def submit(service: Service, call: Call) -> Reply:
    """Submit one job, or an array of jobs of which all are taken or none."""
    given = strict.read_json(call.body)
    key = call.headers.get(b"idempotency-key")
    submitted = await submit_jobs(service, call.caller, given, None if key is None else key.decode("latin-1"))
    headers = [] if any(submitted.created) or not submitted.ids else [(b"idempotency-replayed", b"true")]
    answer: Any = w.SubmittedOut(list(submitted.ids), list(submitted.created), _warnings(service, submitted))
    if isinstance(given, dict):
        answer = await _one(service, submitted)
    return Reply(answer, 201, headers=headers)


async def _one(service: Service, submitted: c.Submitted) -> w.SubmittedJobOut:
    (job_id,) = submitted.ids
    live = service.state.jobs.get(job_id) if all(submitted.created) else None
    if live is not None:
        shown = views.live_job_out(live)
        return views.submitted_job_out(shown, created=True, warnings=_warnings(service, submitted))
    shown = views.job_out(await service.ask(GetJob(job_id)))
    return views.submitted_job_out(shown, created=all(submitted.created))


def _warnings(service: Service, submitted: c.Submitted) -> list[str]:
    """Jobs that need more than there is: they are taken, since more may come, and it is said. Each kind once."""
    found: dict[int, str] = {}
    for job_id in submitted.ids:
        job = service.state.jobs.get(job_id)
        if job is None or id(job.kind) in found:
            continue
        never = never_starts(service.state, job)
        found[id(job.kind)] = "" if never is None else f"{job_id} {never.detail()}"
    return [text for text in found.values() if text][:_MOST_WARNINGS]


async def find(service: Service, call: Call) -> JobInfo:
    """The job of a call, if it exists for this caller."""
    info = await service.ask(GetJob(call["id"]))
    if not call.caller.sees(info.kind.tenant):
        raise JobNotFound(f"there is no job {call['id']!r}", job_id=call["id"])
    return info


@routes.add("GET", "/v2/jobs", "read", query=JobsQuery, replies={200: w.JobsOut})
async def list_jobs(service: Service, call: Call) -> Reply:
    """List jobs, newest first unless said otherwise, a page at a time."""
    asked: JobsQuery = call.query
    query = JobQuery(
        states=tuple(JobState(name) for name in asked.state),
        classes=tuple(CLASSES.index(name) for name in asked.classes),
        tenants=asked.tenant if call.caller.tenant is None else (call.caller.tenant,),
        types=asked.type,
        name_contains=asked.name,
        created_from=_instant(asked.created_from, "created_from"),
        created_to=_instant(asked.created_to, "created_to"),
        ended_from=_instant(asked.ended_from, "ended_from"),
        ended_to=_instant(asked.ended_to, "ended_to"),
        order=asked.order,
        after=asked.after,
        limit=asked.limit,
    )
    found = await service.ask(FindJobs(query))
    following = str(found[-1].seq) if len(found) == asked.limit else None
    return Reply(w.JobsOut([views.job_out(info) for info in found], following))


def _instant(value: float | None, field: str) -> int | None:
    return None if value is None else quantities.instant(value, field)


class WaitQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait for the end of the job."""

    wait_s: Annotated[float, Meta(ge=0)] = 0.0


@routes.add("GET", "/v2/jobs/{id}", "read", query=WaitQuery, replies={200: w.JobOut})
async def get_job(service: Service, call: Call) -> Reply:
    """One job, live or ended; with `wait_s` the answer comes when it has ended, or after so many seconds."""
    info = await find(service, call)
    wait = min(call.query.wait_s, service.settings.max_wait)
    if wait > 0 and info.ended_at is None:
        call.waited = True
        with service.intake.waiting():
            await service.engine.wait_for(lambda state: ended(state, info.id), wait)
        info = await find(service, call)
    return Reply(views.job_out(info))


@routes.add("GET", "/v2/jobs/{id}/events", "read", query=PageQuery, replies={200: w.EventsOut})
async def get_events(service: Service, call: Call) -> Reply:
    """What happened to a job, oldest first, as far as it has been indexed: a fraction of a second ago."""
    await find(service, call)
    service.engine.catch_up()
    found = await service.ask(GetHistory(call["id"], call.query.after, call.query.limit))
    following = found[-1].number if len(found) == call.query.limit else None
    events = [privacy.event_for(call.caller, service.state, views.event_out(entry)) for entry in found]
    return Reply(w.EventsOut(events, following))


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events to list, by the time of their commit; several types may be separated by commas."""

    since: float | None = None
    until: float | None = None
    type: tuple[str, ...] = ()
    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    limit: Limit = 1_000


@routes.add("GET", "/v2/events", "read", query=EventsQuery, replies={200: w.EventsOut}, tenants=False)
async def list_events(service: Service, call: Call) -> Reply:
    """What happened to everything in a range of time, in order, a page at a time."""
    asked: EventsQuery = call.query
    since, until = _instant(asked.since, "since") or 0, _instant(asked.until, "until")
    found = await service.ask(FindEvents(since, until, asked.type, asked.after, asked.limit))
    following = found[-1].number if len(found) == asked.limit else None
    return Reply(w.EventsOut([views.any_event_out(entry) for entry in found], following))


@routes.add("GET", "/v2/jobs/{id}/explain", "read", replies={200: w.ExplainOut})
async def explain_job(service: Service, call: Call) -> Reply:
    """Why a job does not run, and when it should start."""
    await find(service, call)
    found = answer(Explain(call["id"]), service.state, service.engine.writer.store, service.now())
    return Reply(views.explain_out(privacy.explanation_for(call.caller, service.state, found)))


@routes.add("GET", "/v2/jobs/{id}/logs", "read", query=PageQuery, replies={200: w.LogsOut})
async def get_logs(service: Service, call: Call) -> Reply:
    """What a job printed, as far as its worker has sent it."""
    await find(service, call)
    store = service.engine.writer.store
    rows = await service.aside(read_after, store, LOG, call["id"], call.query.after, call.query.limit)
    entries = [w.LogEntryOut(row.number, row.at / 1000, row.body.decode("utf-8", "replace")) for row in rows]
    return Reply(w.LogsOut(call["id"], entries))


@routes.add(
    "POST",
    "/v2/jobs/{id}/cancel",
    "submit",
    body=w.CancelIn,
    optional_body=True,
    replies={200: w.JobOut},
    urgency=Urgency.SUBMIT,
    audit=True,
)
async def cancel_job(service: Service, call: Call) -> Reply:
    """End a job that has not ended; whoever runs it is told to stop."""
    reason = strict.read_as(call.body, w.CancelIn).reason if call.body else ""
    await find(service, call)
    await service.engine.do(c.Cancel(call["id"], long_text(reason, "reason", LIMITS)[:1_000]))
    return Reply(views.job_out(await service.ask(GetJob(call["id"]))))


@routes.add(
    "POST", "/v2/jobs/{id}/retry", "submit", replies={201: w.SubmittedJobOut}, urgency=Urgency.SUBMIT, audit=True
)
async def retry_job(service: Service, call: Call) -> Reply:
    """Submit a job that has ended once more, as a new job that names the old one in `retry_of`."""
    info = await find(service, call)
    if info.ended_at is None:
        raise IllegalTransition(f"a job that is {info.state} cannot be retried yet", state=str(info.state))
    spec = msgspec.structs.replace(info.spec, kind=info.kind, idempotency_key=None, dependencies=(), not_before=None)
    new = c.NewJob(service.ids.new(), msgspec.structs.replace(spec, deadline=None), retry_of=info.id)
    submitted = await service.engine.do(c.Submit((new,)))
    shown = views.job_out(await service.ask(GetJob(new.id)))
    return Reply(views.submitted_job_out(shown, created=all(submitted.created)), 201)


@routes.add(
    "PATCH",
    "/v2/jobs/{id}",
    "submit",
    body=w.PatchIn,
    replies={200: w.JobOut},
    urgency=Urgency.SUBMIT,
    audit=True,
)
async def patch_job(service: Service, call: Call) -> Reply:
    """Change priority, rank, labels or not_before of a job that has not started."""
    given = strict.read_as(call.body, w.PatchIn)
    await find(service, call)
    await service.engine.do(_patch(call["id"], given))
    return Reply(views.job_out(await service.ask(GetJob(call["id"]))))


def _patch(job_id: str, given: w.PatchIn) -> c.Patch:
    fields: dict[str, Any] = {}
    if given.priority is not None:
        fields["priority"] = parse({"priority": given.priority}).kind.priority
    if given.rank is not None:
        fields["rank"] = parse({"rank": given.rank}).kind.rank
    try:
        if given.labels is not None:
            fields["labels"] = pairs(given.labels, "labels", LIMITS)
        if given.not_before is None:
            fields["not_before"] = None
        elif given.not_before is not msgspec.UNSET:
            fields["not_before"] = quantities.instant(given.not_before, "not_before")
    except InvalidInput as error:
        raise InvalidJob(str(error).partition(": ")[2], field=error.field) from None
    return c.Patch(job_id, **fields)
