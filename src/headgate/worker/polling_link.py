"""A worker's link by plain requests, for where there is no stream: it claims one lease at a time and waits for it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any

from headgate.client.errors import ConnectionFailed
from headgate.client.http import Http, segment
from headgate.core.errors import Conflict, InvalidInput, NotFound, StaleLease, WorkerNotFound
from headgate.ports import Clock
from headgate.wire import http as w
from headgate.wire.stream import Word
from headgate.worker.assignment import Assignment, GivenJob, from_wire
from headgate.worker.link import LinkDown, Turn


class _Claimed(w.Out, frozen=True):
    """`ClaimOut`, as a worker reads it."""

    lease: w.LeaseOut | None = None
    job: GivenJob | None = None
    denied: w.Denied | None = None


class PollingLink:
    """Each word is a request. Cancellations are heard of with the next heartbeat."""

    def __init__(self, http: Http, worker_id: str, clock: Clock) -> None:
        self._http = http
        self._worker_id = worker_id
        self._clock = clock
        self._spec: w.WorkerIn | None = None
        self._over = threading.Event()

    def register(self, spec: w.WorkerIn) -> None:
        """Join as a worker that pulls."""
        self._spec = w.WorkerIn(
            spec.id,
            spec.pool,
            spec.slots,
            0,
            spec.resources,
            spec.model_ref,
            spec.gpu_ids,
            spec.labels,
            spec.types,
            pull=True,
            handlers=spec.handlers,
        )
        self._post("/v2/workers", self._spec, w.WorkerOut)

    def turn(
        self,
        words: Sequence[tuple[str, Word]],
        held: Collection[str],  # noqa: ARG002 - heartbeats tell
        told: Collection[str],  # noqa: ARG002 - heartbeats tell
        *,
        wants: bool,
        within: float,
    ) -> Turn:
        """Say words, then claim if there is time to wait for a lease."""
        refused = []
        for place, (_, word) in enumerate(words):
            error = self._say(word)
            if error is not None:
                refused.append((place, error))
        if within <= 0 or self._over.is_set():
            return Turn(tuple(refused), draining=self._over.is_set())
        if not wants:
            self._over.wait(within)
            return Turn(tuple(refused))
        grant = self._claim(within)
        return Turn(tuple(refused), () if grant is None else (grant,))

    def beat(self, leases: Sequence[tuple[str, int]]) -> list[w.BeatOut]:
        """Renew leases; with none the worker sees that it is still known. Its claims are its signs of life."""
        if not leases and self._spec is not None and not self._over.is_set():
            self._see_to_being_known(self._spec)
        beats = []
        for lease_id, token in leases:
            try:
                beats.append(self._post(f"/v2/leases/{segment(lease_id)}/heartbeat", w.TokenIn(token), w.BeatOut))
            except StaleLease:
                beats.append(w.BeatOut(lease_id, 0.0, stale=True))
        return beats

    def drain(self) -> None:
        """Take no further work."""
        self._over.set()
        self._post(f"/v2/workers/{segment(self._worker_id)}/drain", {}, Any)

    def leave(self) -> None:
        """The worker is gone for good."""
        self._http.call("DELETE", f"/v2/workers/{segment(self._worker_id)}", Any)

    def close(self) -> None:
        """The connections belong to the app."""

    def _claim(self, within: float) -> Assignment | None:
        asked_at = self._clock.now()
        claimed = self._post("/v2/leases", w.ClaimIn(self._worker_id, wait_s=within), _Claimed, wait=within)
        if claimed.lease is None or claimed.job is None:
            if claimed.denied is not None and claimed.denied.code == "worker_unfit":
                self._over.wait(min(within, 0.2))
            return None
        return from_wire(claimed.lease, claimed.job, asked_at + round(claimed.lease.ttl * 1000))

    def _see_to_being_known(self, spec: w.WorkerIn) -> None:
        """Registering anew without need would end a drain that somebody asked for."""
        try:
            self._http.get(f"/v2/workers/{segment(self._worker_id)}", w.WorkerOut)
        except WorkerNotFound:
            self._post("/v2/workers", spec, w.WorkerOut)
        except ConnectionFailed as error:
            raise LinkDown(str(error)) from error

    def _say(self, word: Word) -> w.ErrorOut | None:
        body: Any
        match word.verb:
            case "complete":
                body = w.CompleteIn(word.token, word.result, word.log)
            case "fail":
                body = w.FailIn(word.token, word.error or w.ErrorOut("error"), word.retry, word.log)
            case "progress":
                body = w.ProgressIn(word.token, word.fraction, word.note, word.log)
            case _:
                body = w.TokenIn(word.token)
        try:
            self._post(f"/v2/leases/{segment(word.lease_id)}/{word.verb}", body, Any)
        except (Conflict, NotFound, InvalidInput) as error:
            return w.ErrorOut(error.code, str(error))
        return None

    def _post(self, path: str, body: Any, kind: Any, *, wait: float = 0.0) -> Any:
        try:
            return self._http.post(path, body, kind, wait=wait)
        except ConnectionFailed as error:
            raise LinkDown(str(error)) from error
