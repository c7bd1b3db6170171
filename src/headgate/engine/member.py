"""A process among those that share a database: its owner if it came first, a client of the owner otherwise.

When the owner goes away the next caller takes over after recovery, or finds whoever did. Commands are sent again
where that is safe: verbs on leases are fenced by their token, and a submission carries the ids of its jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from headgate.core import commands as c
from headgate.core.errors import DuplicateJob, JobNotFound
from headgate.core.fingerprint import spec_digest
from headgate.core.lease import Lease
from headgate.core.retention import Retention
from headgate.engine.errors import EngineSilent, EngineStopped, EngineUnreachable
from headgate.engine.local import Face, LocalClient
from headgate.engine.questions import GetDocuments, GetJob, Question
from headgate.engine.serving import LocalServer
from headgate.engine.shared import SharedEngine
from headgate.engine.working import WaitLease, Work, Worked
from headgate.ports import Clock, Compacted, Deposed, StoreOwned

R = TypeVar("R")
_ONCE_ONLY: tuple[type[c.Command[Any]], ...] = (c.Schedule, c.Claim)
PATIENCE = 30_000
"""Milliseconds to look for an owner, or to become one, or to wait for its answer."""
PATIENCE_WITH_SERVERS = 1_000
"""A server never answers at the socket; the note that names it may be a moment older than the lock."""


def _is_there(face: Face, job: c.NewJob) -> bool:
    """Whether this very job was taken in: the same id with the same body."""
    try:
        return spec_digest(face.ask(GetJob(job.id)).spec) == spec_digest(job.spec)
    except JobNotFound:
        return False


class Member:
    """The face of a shared database."""

    def __init__(
        self,
        path: Path,
        open_owner: Callable[[], SharedEngine],
        clock: Clock,
        pause: Callable[[float], object],
        stopwatch: Callable[[], float],
        patience: int = PATIENCE,
    ) -> None:
        self._socket = path.with_name(path.name + ".sock")
        self._open_owner = open_owner
        self._clock = clock
        self._pause = pause
        self._stopwatch = stopwatch
        self._patience = patience
        self._lock = threading.Lock()
        self._face: Face | None = None
        self._server: LocalServer | None = None
        self._held_by: StoreOwned | None = None
        self._stopped = False

    @property
    def owner(self) -> bool:
        """Whether this process owns the database."""
        return self._server is not None

    def start(self) -> Member:
        """Become the owner, or find it."""
        self._join(None)
        return self

    def do(self, command: c.Command[R]) -> R:
        """Carry out a command and return when its effects are durable."""
        face = self._joined()
        try:
            return face.do(command)
        except EngineSilent:  # it is still the owner: nobody else can be asked
            raise
        except EngineUnreachable:
            if isinstance(command, _ONCE_ONLY):
                raise
        except EngineStopped:
            if not _deposed(face):
                raise
        return self._again(self._join(face), command)

    def ask(self, question: Question[R]) -> R:
        """Answer a question."""
        face = self._joined()
        try:
            return face.ask(question)
        except EngineSilent:
            raise
        except (EngineUnreachable, EngineStopped) as error:
            if isinstance(error, EngineStopped) and not _deposed(face):
                raise
            return self._join(face).ask(question)

    def wait_end(self, job_id: str, within: float) -> bool:
        """Wait until a job has ended; false if it has not in time."""
        face = self._joined()
        try:
            return face.wait_end(job_id, within)
        except EngineSilent:
            raise
        except EngineUnreachable:
            return self._join(face).wait_end(job_id, within)

    def work(self, asked: Work) -> Worked:
        """Carry out a worker's words and tell it what is new. Words are fenced: sending them again is safe."""
        face = self._joined()
        try:
            return face.work(asked)
        except EngineSilent:
            raise
        except EngineUnreachable:
            return self._join(face).work(asked)

    def wait_lease(self, asked: WaitLease) -> Lease | None:
        """Wait until an external job has its lease; none if it has not in time, or has ended."""
        face = self._joined()
        try:
            return face.wait_lease(asked)
        except EngineSilent:
            raise
        except EngineUnreachable:
            return self._join(face).wait_lease(asked)

    def compact(self, retention: Retention) -> Compacted:
        """Delete everything older than the given ages; sending it again is safe."""
        face = self._joined()
        try:
            return face.compact(retention)
        except EngineSilent:
            raise
        except EngineUnreachable:
            return self._join(face).compact(retention)

    def stop(self) -> None:
        """Leave; the owner hands over to whoever asks next."""
        with self._lock:
            self._stopped = True
            self._leave()

    def _leave(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._face is not None:
            self._face.stop()
            self._face = None

    def _again(self, face: Face, command: c.Command[R]) -> R:
        """Send a command whose first answer was lost: it may have been carried out."""
        try:
            return face.do(command)
        except DuplicateJob:
            if not isinstance(command, c.Submit):
                raise
            if not all(_is_there(face, job) for job in command.jobs):
                raise
            ids = tuple(job.id for job in command.jobs)
            return c.Submitted(ids, (True,) * len(ids))  # type: ignore[return-value]  # what Submit answers

    def _joined(self) -> Face:
        face = self._face
        return self._join(None) if face is None else face

    def _join(self, lost: Face | None) -> Face:
        """Find the owner or become it, unless another thread has done so since `lost` was."""
        with self._lock:
            if self._stopped:
                raise EngineUnreachable("this member has stopped")
            if self._face is not None and self._face is not lost:
                return self._face
            if lost is not None:
                self._leave()
            self._face = self._look()
            return self._face

    def _look(self) -> Face:
        began = self._clock.now()
        wait = 0.005
        while True:
            face = self._own() or self._reach()
            if face is not None:
                return face
            self._give_up_after(self._clock.now() - began)
            self._pause(wait)
            wait = min(0.25, wait * 2)

    def _give_up_after(self, waited: int) -> None:
        held = self._held_by
        if held is not None and held.details.get("server") and waited >= PATIENCE_WITH_SERVERS:
            raise EngineUnreachable(f"{held}: give its address, http://..., in place of the file")
        if waited >= self._patience:
            raise EngineUnreachable(f"{held}, but nobody answers at {self._socket.name}")

    def _own(self) -> Face | None:
        try:
            engine = self._open_owner()
        except StoreOwned as error:
            self._held_by = error
            return None
        server = LocalServer(engine, self._socket, self._stopwatch)
        try:
            server.start()
        except BaseException:
            engine.stop()
            raise
        engine.on_deposed = server.stop  # its clients look for the new owner
        self._server = server
        return engine

    def _reach(self) -> Face | None:
        client = LocalClient(self._socket, self._patience / 1000)
        try:
            client.ask(GetDocuments(""))
        except EngineSilent:
            client.stop()
            raise
        except EngineUnreachable:
            return None
        return client


def _deposed(face: Face) -> bool:
    """Whether this process owned the database and another one has taken it over."""
    return isinstance(face, SharedEngine) and isinstance(face.writer.stopped, Deposed)
