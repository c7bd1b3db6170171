"""From what a caller wrote to jobs that the core can take: whose they are, what they depend on, and under which key."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.core import commands as c
from headgate.core.errors import IdempotencyConflict, InvalidInput, InvalidJob, UnknownDependency
from headgate.core.job import JobSpec
from headgate.core.job_input import LIMITS, Kinds, parse_job
from headgate.server.problems import Forbidden
from headgate.server.service import Service
from headgate.server.tokens import Caller

MOST = 100_000
"""Jobs in one submission."""
_KEY_LENGTH = 200


async def submit_jobs(service: Service, caller: Caller, given: Any, key: str | None) -> c.Submitted:
    """Take in one job or an array, all or none."""
    many = isinstance(given, list)
    entries = given if many else [given]
    if len(entries) > MOST:
        raise InvalidInput(f"at most {MOST} jobs can be submitted at once")
    if key is not None:
        _check_key(key)
    known: Kinds = {}
    specs = [
        _parse(entry, index if many else None, caller, _key_of(key, index, many), known)
        for index, entry in enumerate(entries)
    ]
    if key is not None and many:
        _check_same_length(service, specs, key)
    jobs = [c.NewJob(job_id, spec) for job_id, spec in zip(service.ids.many(len(specs)), specs, strict=True)]
    if any(spec.dependencies for spec in specs):
        jobs = await _resolve(service, caller, jobs)
    return await service.engine.do(c.Submit(tuple(jobs)))


def _check_key(key: str) -> None:
    if not key.strip() or len(key) > _KEY_LENGTH or not key.isprintable():
        raise InvalidInput(f"must be 1 to {_KEY_LENGTH} printable characters", field="Idempotency-Key")


def _key_of(key: str | None, index: int, many: bool) -> str | None:
    return f"{key}#{index}" if key is not None and many else key


def _parse(entry: Any, index: int | None, caller: Caller, key: str | None, known: Kinds) -> JobSpec:
    if caller.tenant is not None and isinstance(entry, dict):
        entry.setdefault("tenant", caller.tenant)
    try:
        spec = parse_job(entry, LIMITS, known)
    except InvalidJob as error:
        if index is None:
            raise
        text = str(error).partition(": ")[2] if error.field else str(error)
        raise InvalidJob(text, field=f"[{index}].{error.field}".rstrip("."), index=index) from None
    if caller.tenant is not None and spec.kind.tenant != caller.tenant:
        raise Forbidden(f"the token is bound to the tenant {caller.tenant!r}", tenant=caller.tenant)
    if key is not None:
        if spec.idempotency_key not in (None, key):
            raise InvalidJob("differs from the Idempotency-Key header", field="idempotency_key")
        spec = msgspec.structs.replace(spec, idempotency_key=key)
    return spec


def _check_same_length(service: Service, specs: list[JobSpec], key: str) -> None:
    """A repeat of an array under a key must be the whole array: the first, the last, and none after it."""
    if not specs:
        return
    tenant = specs[0].kind.tenant
    if _known(service, tenant, f"{key}#0") is None:
        return
    last = _known(service, specs[-1].kind.tenant, f"{key}#{len(specs) - 1}")
    beyond = _known(service, tenant, f"{key}#{len(specs)}")
    if last is None or beyond is not None:
        raise IdempotencyConflict(f"idempotency key {key!r} was used before with another number of jobs")


def _known(service: Service, tenant: str, key: str) -> str | None:
    """The job that was submitted under a key."""
    known = service.state.keys.get((tenant, key))
    if known is not None:
        return known[0]
    # The writer asks the same when it takes the jobs in: for one row, another thread is the longer way.
    row = service.engine.writer.store.find_keys([(tenant, key)]).get((tenant, key))
    return None if row is None else row.id


async def _resolve(service: Service, caller: Caller, jobs: list[c.NewJob]) -> list[c.NewJob]:
    """Put ids in the place of `#0`, `#1`, ...: jobs of the same array. What is not the caller's own is unknown."""
    ids = [new.id for new in jobs]
    if any(name.startswith("#") for new in jobs for name in new.spec.dependencies):
        ids = [_id_under_key(service, new) for new in jobs]
    resolved = []
    for new in jobs:
        names = tuple(_resolved(name, ids) for name in new.spec.dependencies)
        resolved.append(c.NewJob(new.id, msgspec.structs.replace(new.spec, dependencies=names)))
    if caller.tenant is not None:
        outside = {name for new in resolved for name in new.spec.dependencies} - set(ids)
        for name in outside:
            await _check_own(service, caller, name)
    return resolved


def _id_under_key(service: Service, new: c.NewJob) -> str:
    """A repeat refers to the jobs that the first submission made."""
    key = new.spec.idempotency_key
    known = None if key is None else _known(service, new.spec.kind.tenant, key)
    return known or new.id


def _resolved(name: str, ids: list[str]) -> str:
    if not name.startswith("#"):
        return name
    number = name[1:]
    if not number.isascii() or not number.isdigit() or len(number) > 6 or int(number) >= len(ids):
        raise UnknownDependency(
            f"{name!r} is not the place of a job in this array", field="dependencies", dependency=name
        )
    return ids[int(number)]


async def _check_own(service: Service, caller: Caller, job_id: str) -> None:
    live = service.state.jobs.get(job_id)
    if live is not None:
        tenant: str | None = live.kind.of.tenant
    else:
        view = await service.aside(service.engine.writer.store.get_job, job_id)
        tenant = None if view is None else view.job.tenant
    if tenant is None or not caller.sees(tenant):
        raise UnknownDependency(f"there is no job {job_id!r}", field="dependencies", dependency=job_id)
