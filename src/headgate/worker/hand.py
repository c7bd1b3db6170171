"""What a worker has in hand: its leases, those whose work waits, and the words it still has to say. One lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from headgate.wire.stream import Word
from headgate.worker.assignment import Assignment
from headgate.worker.context import JobContext
from headgate.worker.output import Output

_REMEMBERED = 50_000
MANY = 64
"""Words that are worth a message of their own without waiting for more."""


class Holding:
    """One lease in hand."""

    __slots__ = ("begun_at", "context", "lost", "output", "sure_until", "timed_out", "told", "work")

    def __init__(self, work: Assignment, report: Callable[[Holding, float | None, str], None]) -> None:
        self.work = work
        self.output = Output()
        self.sure_until = work.sure_until
        self.begun_at: int | None = None
        self.lost = False
        """The lease is over: nothing that is said of it counts."""
        self.told = False
        """The lease must be given back to make room, or because the worker leaves."""
        self.timed_out = False
        self.context = JobContext(
            work.job_id,
            work.attempt,
            name=work.name,
            seed=work.seed,
            report=lambda fraction, note: report(self, fraction, note),
            write=self.output.write,
        )

    def word(self, verb: str, **content: object) -> tuple[str, Word]:
        """A word on this lease, with the id of its job."""
        return self.work.job_id, Word(self.work.lease_id, self.work.token, verb, **content)  # type: ignore[arg-type]


class Hand:
    """Shared by the threads of a worker."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.work_came = threading.Condition(self.lock)
        self.words_came = threading.Condition(self.lock)
        self.roused = threading.Condition(self.lock)
        """For those who rest while there is nothing in hand."""
        self.resting = 0
        self.emptied = threading.Condition(self.lock)
        self.idle = 0
        """How many wait for work to come."""
        self.held: dict[str, Holding] = {}
        self.ready: deque[Holding] = deque()
        self.speaker_sleeps = False
        self.taken = 0
        """How often words were taken from here to be said."""
        self._outbox: list[tuple[str, Word]] = []
        self._seen: dict[str, None] = {}
        self._closing: set[str] = set()

    # -- leases ---------------------------------------------------------------------------------------------------

    def take_in(self, grants: Iterable[Assignment], report: Callable[[Holding, float | None, str], None]) -> None:
        """New leases; one that was here before is not taken twice, however late it comes again."""
        with self.lock:
            for work in grants:
                if work.lease_id in self._seen:
                    continue
                self._remember(work.lease_id)
                holding = Holding(work, report)
                self.held[work.lease_id] = holding
                self.ready.append(holding)
            if self.idle:
                self.work_came.notify(len(self.ready))

    def await_work(self, seconds: float) -> None:
        """Wait until there may be work; the lock is held."""
        self.idle += 1
        self.work_came.wait(seconds)
        self.idle -= 1

    def tell_idle(self) -> None:
        """Somebody who waits for work may look again; the lock is held."""
        if self.idle:
            self.work_came.notify()

    def _remember(self, lease_id: str) -> None:
        self._seen[lease_id] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def drop(self, holding: Holding, *last: tuple[str, Word]) -> bool:
        """The lease is no longer in hand; the last words on it are to be said. Whether more work waits."""
        with self.lock:
            self.held.pop(holding.work.lease_id, None)
            if holding.begun_at is None and holding in self.ready:
                self.ready.remove(holding)
            if not self.held:
                self.emptied.notify_all()
            if last:
                self._closing.add(holding.work.lease_id)
                self._put(last)
            return bool(self.ready)

    def snapshot(self) -> list[Holding]:
        """All leases in hand."""
        with self.lock:
            return list(self.held.values())

    def known(self, *, closing: bool) -> tuple[list[str], list[str]]:
        """The leases in hand, with those whose last word is on its way if asked; and those to be let go of."""
        with self.lock:
            mine = [lease_id for lease_id, holding in self.held.items() if not holding.lost]
            told = [lease_id for lease_id, holding in self.held.items() if holding.told]
            return [*mine, *self._closing] if closing else mine, told

    def rest(self, seconds: float | None) -> None:
        """Rest until there is something in hand for longer than a moment."""
        with self.lock:
            self.resting += 1
            self.roused.wait(seconds)
            self.resting -= 1

    # -- words ----------------------------------------------------------------------------------------------------

    def say(self, *words: tuple[str, Word]) -> None:
        """Words to be said soon."""
        if not words:
            return
        with self.lock:
            self._put(words)

    def _put(self, words: Iterable[tuple[str, Word]]) -> None:
        self._outbox += words
        if self.speaker_sleeps or len(self._outbox) >= MANY:
            self.words_came.notify()

    def say_progress(self, job_id: str, word: Word) -> None:
        """How far a job is; what was said before and is still here is replaced."""
        with self.lock:
            for place in range(len(self._outbox) - 1, -1, -1):
                _, before = self._outbox[place]
                if before.lease_id == word.lease_id:
                    if before.verb == "progress" and not before.log:
                        del self._outbox[place]
                    break
        self.say((job_id, word))

    def take_words(self) -> list[tuple[str, Word]]:
        """Everything that is to be said."""
        with self.lock:
            words, self._outbox = self._outbox, []
            self.taken += 1
            return words

    def put_back(self, words: list[tuple[str, Word]]) -> None:
        """They could not be said: they come first the next time."""
        with self.lock:
            self._outbox[:0] = words

    def said(self, words: list[tuple[str, Word]]) -> None:
        """They were heard."""
        with self.lock:
            for _, word in words:
                self._closing.discard(word.lease_id)

    @property
    def words(self) -> int:
        """How many words wait."""
        return len(self._outbox)
