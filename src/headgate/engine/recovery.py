"""Recovery: from the rows of a store back to a state."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

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


class _First(msgspec.Struct, gc=False, array_like=True):
    """The first field of a `JobSpec`, left encoded."""

    kind: msgspec.Raw


class _Rest(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """`JobSpec` after its kind: a million jobs are of few kinds, and the bytes of each are decoded once."""

    name: str
    payload: bytes = b"null"
    seed: int | None = None
    attributes: bytes = b"{}"
    dependencies: tuple[str, ...] = ()
    not_before: int | None = None
    deadline: int | None = None
    idempotency_key: str | None = None


_AT_ONCE = 4_096
"""Jobs that enter the state together: few enough to be in the processor's cache still."""
_first = msgspec.msgpack.Decoder(_First).decode
_rest = msgspec.msgpack.Decoder(_Rest).decode
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
        specs = _Specs()
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


class _Head(NamedTuple):
    """How the encoded specifications of one kind begin, up to the end of the kind."""

    encoded: bytes
    length: int
    opens: bytes
    """What makes the rest an array of its own: one field fewer."""
    kind: JobKind


_NO_HEAD = _Head(b"no beginning", 0, b"", JobKind())


class _Specs:
    """Decodes specifications; equal kinds become one object."""

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}

    def head(self, body: bytes) -> _Head:
        """What a specification shares with all of its kind."""
        encoded = body[:1] + _first(body).kind
        if not body.startswith(encoded):
            raise ValueError("a specification has more fields than one byte can count")
        head = self._heads.get(encoded)
        if head is None:
            opens = bytes([body[0] - 1])
            head = self._heads[encoded] = _Head(encoded, len(encoded), opens, _kind(encoded[1:]))
        return head

    def decode(self, body: bytes) -> JobSpec:
        head = self.head(body)
        return _whole(head.kind, _rest(head.opens + body[head.length :]))


def _whole(kind: JobKind, rest: _Rest) -> JobSpec:
    return JobSpec(
        kind,
        rest.name,
        rest.payload,
        rest.seed,
        rest.attributes,
        rest.dependencies,
        rest.not_before,
        rest.deadline,
        rest.idempotency_key,
    )


def _documents(state: State, rows: Iterable[DocumentRow], now: int) -> None:
    for row in rows:
        body = row.body or b""
        if row.kind == "worker":
            document = _worker(body)
            apply(state, WorkerRegistered(now, document.spec, document.status))
            worker = state.workers[document.spec.id]
            worker.registered_at, worker.held = document.registered_at, document.held
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
    encoded, length, opens, of = _NO_HEAD
    home: Kind | None = None
    for seq, job_id, created_at, body, status, lease in rows:
        if body[:length] != encoded:
            encoded, length, opens, of = specs.head(body)
            home = None
        rest = _rest(opens + body[length:])
        if status is None and lease is None and _is_plain(rest):
            if home is None:
                home = state.kind_for(of, of.job_class)
            name, payload, attributes = rest.name, rest.payload, rest.attributes
            plain.append(plain_job(job_id, home, name, payload, rest.seed, attributes, seq, created_at))
            if len(plain) == _AT_ONCE:
                state.enter_plain(plain)
                plain = []
            continue
        state.enter_plain(plain)
        plain = []
        spec = _whole(of, rest)
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


def _is_plain(rest: _Rest) -> bool:
    """Whether the job waits for nothing but room, and no key names it: the common case, a million times."""
    return not rest.dependencies and (rest.not_before is rest.deadline is None and rest.idempotency_key is None)


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
    if len(live) == mark.seq - mark.low_water + 1 and live[:1] == [mark.low_water]:  # without a gap
        return
    for before, after in pairwise([mark.low_water - 1, *live, mark.seq + 1]):
        if after - before > 1:
            for ended in range(before + 1, after):
                changes.low_water.ended(ended)
