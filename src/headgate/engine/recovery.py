"""Recovery: from the rows of a store back to a state."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Protocol

import msgspec

from headgate.core.apply import apply
from headgate.core.cluster import ModelSpec
from headgate.core.events import ModelSet, TenantSet, WorkerRegistered
from headgate.core.job import JobKind, JobSpec
from headgate.core.lease import Lease
from headgate.core.restore import Standing, restore_ended, restore_live
from headgate.core.settings import Settings
from headgate.core.state import Job, Kind, Settled, State, plain_job
from headgate.core.states import TERMINAL, JobState
from headgate.core.tenants import TenantSpec
from headgate.engine.rows import Changes, WorkerDocument
from headgate.ports import DocumentRow, EndedJob, LeaseRow, LiveJob, Mark, StatusRow, StoreDamaged


class _StoredSpec(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """`JobSpec` with its kind left encoded: a million jobs are of few kinds, and each is decoded once."""

    kind: msgspec.Raw
    name: str
    payload: bytes = b"null"
    seed: int | None = None
    attributes: bytes = b"{}"
    dependencies: tuple[str, ...] = ()
    not_before: int | None = None
    deadline: int | None = None
    idempotency_key: str | None = None


_stored_spec = msgspec.msgpack.Decoder(_StoredSpec).decode
_kind = msgspec.msgpack.Decoder(JobKind).decode
_worker = msgspec.msgpack.Decoder(WorkerDocument).decode
_tenant = msgspec.msgpack.Decoder(TenantSpec).decode
_model = msgspec.msgpack.Decoder(ModelSpec).decode


class Rows(Protocol):
    """The part of a store that a state is rebuilt from."""

    def live_jobs(self) -> Iterator[LiveJob]:
        """All jobs that have not ended, in order of submission."""
        ...

    def recent_ends(self, limit: int) -> list[EndedJob]:
        """The last jobs that ended, oldest end first."""
        ...

    def documents(self) -> Iterator[DocumentRow]:
        """All documents."""
        ...


def recover(store: Rows, settings: Settings, mark: Mark, now: int) -> tuple[State, Changes]:
    """The state as of the last commit, and the collector that knows which rows stand in the store."""
    state = State(settings, mark.epoch)
    state.seq, state.tokens = mark.seq, mark.tokens
    state.now = state.ticked_at = now
    changes = Changes(mark.low_water)
    collecting = gc.isenabled()
    gc.disable()  # a million new objects would be looked through again and again, and none of them is garbage
    try:
        _documents(state, store.documents(), now)
        specs = _Specs(state)
        _ended(state, store.recent_ends(settings.retain_finished), specs)
        _live(state, changes, store.live_jobs(), specs, now)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError) as error:
        raise StoreDamaged(
            f"{getattr(store, 'name', 'the store')}: a row cannot be read: {type(error).__name__}: {error}"
        ) from error
    finally:
        if collecting:
            gc.enable()
    _mend_low_water(state, changes, mark)
    return state, changes


class _Specs:
    """Decodes specifications; equal kinds become one object."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kinds: dict[bytes, JobKind] = {}
        self._homes: dict[bytes, Kind] = {}

    def home(self, encoded: bytes) -> Kind:
        """Where queued jobs of a kind are counted."""
        home = self._homes.get(encoded)
        if home is None:
            of = self.kind(encoded)
            home = self._homes[encoded] = self._state.kind_for(of, of.job_class)
        return home

    def kind(self, encoded: bytes) -> JobKind:
        kind = self._kinds.get(encoded)
        if kind is None:
            kind = self._kinds[encoded] = _kind(encoded)
        return kind

    def decode(self, body: bytes) -> JobSpec:
        return self.whole(_stored_spec(body))

    def whole(self, stored: _StoredSpec) -> JobSpec:
        """The specification with its kind decoded."""
        kind = self.kind(bytes(stored.kind))
        return JobSpec(
            kind,
            stored.name,
            stored.payload,
            stored.seed,
            stored.attributes,
            stored.dependencies,
            stored.not_before,
            stored.deadline,
            stored.idempotency_key,
        )


def _documents(state: State, rows: Iterable[DocumentRow], now: int) -> None:
    for row in rows:
        body = row.body or b""
        if row.kind == "worker":
            document = _worker(body)
            apply(state, WorkerRegistered(now, document.spec, document.status))
            state.workers[document.spec.id].registered_at = document.registered_at
        elif row.kind == "tenant":
            apply(state, TenantSet(now, _tenant(body)))
        elif row.kind == "model":
            apply(state, ModelSet(now, _model(body)))
        else:
            state.documents[row.kind, row.id] = body


def _ended(state: State, rows: Iterable[EndedJob], specs: _Specs) -> None:
    for job, end in rows:
        settled = None
        if end.lease_id is not None:
            settled = Settled(
                end.lease_id, end.token or 0, end.verb or "", end.digest or b"", end.worker_id, end.started_at
            )
        restore_ended(state, job.id, job.seq, job.created_at, specs.decode(job.spec), JobState(end.state), settled)


def _live(state: State, changes: Changes, rows: Iterable[LiveJob], specs: _Specs, now: int) -> None:
    plain: list[Job] = []
    for seq, job_id, created_at, body, status, lease in rows:
        stored = _stored_spec(body)
        if status is None and lease is None and _is_plain(stored):
            kind, payload, attributes = specs.home(bytes(stored.kind)), stored.payload, stored.attributes
            plain.append(plain_job(job_id, kind, stored.name, payload, stored.seed, attributes, seq, created_at))
            continue
        state.enter_plain(plain)
        plain = []
        spec = specs.whole(stored)
        standing = None
        if status is not None:
            standing = _standing(spec, status)
            changes.status_rows.add(seq)
        held = None
        if lease is not None:
            held = _lease(job_id, spec, standing, lease, now)
            changes.lease_rows.add(seq)
        restore_live(state, job_id, seq, created_at, spec, standing, held, now)
    state.enter_plain(plain)


def _is_plain(stored: _StoredSpec) -> bool:
    """Whether the job waits for nothing but room, and no key names it: the common case, a million times."""
    return not stored.dependencies and (stored.not_before is stored.deadline is None and stored.idempotency_key is None)


def _standing(spec: JobSpec, row: StatusRow) -> Standing:
    settled = None
    if row.lease_id is not None:
        settled = Settled(row.lease_id, row.token or 0, row.verb or "", row.digest or b"", None, None)
    of = spec.kind if row.kind is None else _kind(row.kind)
    return Standing(of, row.job_class, row.attempt, row.not_before, row.queued_at, settled)


def _lease(job_id: str, spec: JobSpec, standing: Standing | None, row: LeaseRow, now: int) -> Lease:
    """The lease with a full TTL from now: the clock of the last start may have stood hours ahead of this one."""
    of = spec.kind if standing is None else standing.kind
    return Lease(
        row.lease_id,
        job_id,
        row.worker_id,
        row.pool_id,
        of.tenant,
        of.units,
        of.resources,
        row.token,
        row.granted_at,
        now + row.ttl,
        row.granted_at,
        row.attempt,
        row.ttl,
        row.started_at,
        None,
        row.fence_at,
        row.for_job,
    )


def _mend_low_water(state: State, changes: Changes, mark: Mark) -> None:
    """Jobs above the mark that are not live have ended."""
    live = sorted([job.seq for job in state.jobs.values() if job.state not in TERMINAL])
    if live and live[-1] > mark.seq:
        raise StoreDamaged(f"job {live[-1]} is above the last number given out, {mark.seq}")
    for before, after in pairwise([mark.low_water - 1, *live, mark.seq + 1]):
        if after - before > 1:
            for ended in range(before + 1, after):
                changes.low_water.ended(ended)
