"""A worker's link to an engine in this process, or in the one that owns the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.quantities import resources
from headgate.engine.errors import EngineStopped, EngineUnreachable
from headgate.engine.local import Face
from headgate.engine.working import Grant, Work, Worked
from headgate.ports import Clock, StoreError
from headgate.wire.http import BeatOut, ErrorOut, WorkerIn
from headgate.wire.stream import Word
from headgate.wire.words import command_of
from headgate.worker.assignment import Assignment
from headgate.worker.link import LinkDown, Turn

R = TypeVar("R")


class EmbeddedLink:
    """Words and news in one call, one commit."""

    def __init__(self, face: Face, worker_id: str, clock: Clock) -> None:
        self._face = face
        self._worker_id = worker_id
        self._clock = clock

    def register(self, spec: WorkerIn) -> None:
        """Join, or say anew what this worker is."""
        offered = resources(spec.resources, "resources")
        types = None if spec.types is None else tuple(spec.types)
        labels, gpus = tuple(sorted(spec.labels.items())), tuple(spec.gpu_ids)
        new = WorkerSpec(
            spec.id,
            spec.pool,
            spec.slots,
            spec.prefetch,
            offered,
            spec.model_ref,
            gpus,
            labels,
            types,
            False,
            spec.handlers,
        )
        _reached(lambda: self._face.do(c.RegisterWorker(new)))

    def turn(
        self,
        words: Sequence[tuple[str, Word]],
        held: Collection[str],
        told: Collection[str],
        *,
        wants: bool,
        within: float,
    ) -> Turn:
        """Say words and hear what is new."""
        said = tuple([command_of(word) for _, word in words])
        logs = tuple([(word.lease_id, word.token, word.log) for _, word in words if word.log])
        asked = Work(self._worker_id, said, tuple(held), tuple(told), logs, wants, within)
        asked_at = self._clock.now()
        worked = _reached(lambda: self._face.work(asked))
        return Turn(
            tuple([(refused.word, ErrorOut(refused.code, refused.message)) for refused in worked.refused]),
            tuple([_assignment(grant, worked, asked_at - worked.now) for grant in worked.grants]),
            worked.gone,
            tuple([(lease_id, max(0, by - worked.now)) for lease_id, by in worked.let_go]),
            worked.draining,
        )

    def beat(self, leases: Sequence[tuple[str, int]]) -> list[BeatOut]:
        """Renew leases, and give a sign of life."""
        _reached(lambda: self._face.do(c.WorkerBeat(self._worker_id)))
        if not leases:
            return []
        beats = _reached(lambda: self._face.do(c.Heartbeats(tuple(leases))))
        return [_beat_out(beat) for beat in beats]

    def drain(self) -> None:
        """Take no further work."""
        _reached(lambda: self._face.do(c.DrainWorker(self._worker_id, "it leaves")))

    def leave(self) -> None:
        """The worker is gone for good."""
        _reached(lambda: self._face.do(c.RemoveWorker(self._worker_id)))

    def close(self) -> None:
        """The engine belongs to the app."""


def _reached(call: Callable[[], R]) -> R:
    try:
        return call()
    except (EngineStopped, EngineUnreachable, StoreError) as error:
        raise LinkDown(str(error)) from error


def _beat_out(beat: c.Beat) -> BeatOut:
    let_go_by = None if beat.let_go_by is None else beat.let_go_by / 1000
    return BeatOut(beat.lease_id, beat.expires_at / 1000, let_go_by, beat.stale)


def _assignment(grant: Grant, worked: Worked, offset: int) -> Assignment:
    """`offset` takes the engine's clock to ours, as it stood when the question was asked."""
    kind = worked.kinds[grant.kind]
    return Assignment(
        grant.lease_id,
        grant.token,
        grant.job_id,
        grant.attempt,
        grant.ttl,
        kind.type,
        kind.run,
        grant.payload,
        grant.name,
        kind.timeout,
        grant.resources,
        grant.attributes,
        grant.seed,
        grant.expires_at + offset,
        grant.begun,
    )
