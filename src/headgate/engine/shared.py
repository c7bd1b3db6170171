"""The engine for threads: whoever comes first does everybody's work.

A caller leaves its command in a queue. If nobody leads, it leads: it carries out all commands in the queue, lets the
policy plan, commits once, and hands out the answers; then it names whoever waits first to lead next. Those who do not
lead sleep until they are woken with their answer. So one caller pays for one commit and no hand-over, and many callers
share commits. A timer thread takes its turn like anybody else.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

import msgspec

from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.events import Event
from headgate.core.lease import Lease
from headgate.core.retention import Retention
from headgate.core.state import State
from headgate.engine.compacting import counted
from headgate.engine.company import Company
from headgate.engine.errors import EngineStopped
from headgate.engine.feed import Subscription
from headgate.engine.questions import STORED, GetHistory, GetJob, Question, answer, ended
from headgate.engine.rounds import STANDBY_EVERY, Bundle, Rounds, callers_of
from headgate.engine.working import (
    LOG,
    WaitLease,
    Work,
    Worked,
    external_lease,
    hello_of,
    log_row,
    news,
    refusal,
)
from headgate.engine.writer import Writer
from headgate.ports import Clock, Compacted, Gone, StoreError

R = TypeVar("R")


class _Waiting(Bundle):
    """Commands whose caller may sleep until they are settled."""

    __slots__ = ("asleep",)

    def __init__(self, commands: Sequence[c.Command[Any]]) -> None:
        super().__init__(commands, self.wake, get_ident())
        self.asleep = allocate_lock()
        self.asleep.acquire()

    def wake(self) -> None:
        """Let the caller look again; it may be awake already."""
        try:
            self.asleep.release()
        except RuntimeError:
            return


class SharedEngine:
    """A writer shared by the threads of a process."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self.writer = writer
        self.rounds = Rounds(writer)
        self.clock = clock
        self.on_deposed: Callable[[], None] = lambda: None
        """Called once, when another engine has taken the store over."""
        self._turn = threading.RLock()
        self._changed = threading.Condition(self._turn)
        self._leading = allocate_lock()
        self._queue: deque[_Waiting] = deque()
        self._company = Company(clock)
        self._stopping = threading.Event()
        self._nudge = threading.Event()
        self._timer: threading.Thread | None = None

    @property
    def problem(self) -> str | None:
        """Why the engine does not serve, while it does not."""
        return self.rounds.problem

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self, standby: bool = False) -> Self:
        """Open the store, rebuild the state, and let time pass.

        As a standby, wait while another engine owns the store; `stop` from another thread ends the wait.
        """
        while not self._opened(standby):
            if self._stopping.wait(STANDBY_EVERY / 1000):
                raise EngineStopped("the engine was stopped while it stood by")
        self._timer = threading.Thread(target=self._keep_time, name="headgate-timer", daemon=True)
        self._timer.start()
        return self

    def _opened(self, standby: bool) -> bool:
        with self._turn:
            if not self.rounds.open(self.clock.now(), standby):
                return False
            self.rounds.pass_time(self.clock.now())
            return True

    def stop(self) -> None:
        """Commit what is there and let go of the store. Stopping twice is the same as once."""
        self._stopping.set()
        self._nudge.set()
        if self._timer is not None and self._timer is not threading.current_thread():
            self._timer.join()
        with self._turn:
            self._drain()
            self.rounds.catch_up()
            self.writer.close()
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- commands and questions ---------------------------------------------------------------------------------

    def do(self, command: c.Command[R]) -> R:
        """Carry out a command and return when its effects are durable."""
        (reply,) = self.do_all((command,))
        if isinstance(reply, Exception):
            raise reply
        return reply  # type: ignore[no-any-return]  # what the command is answered by

    def do_all(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Carry out several commands in one commit, each for itself; the error of a refused one stands in the list."""
        if not commands:
            return []
        ticket = _Waiting(commands)
        self._queue.append(ticket)
        self._company.come()
        self._wait(ticket)
        return ticket.replies()

    def _wait(self, ticket: _Waiting) -> None:
        """Lead if nobody does, otherwise sleep until the answer is there or it is this caller's turn to lead."""
        while not ticket.settled:
            if not self._leading.acquire(blocking=False):
                ticket.asleep.acquire()
                continue
            try:
                if not ticket.settled:
                    self._company.wait(lambda: callers_of(self._queue.copy()))
                    with self._turn:
                        self._drain()
            finally:
                self._leading.release()
            # After the release: who came too late to be served, and too early to lead, would sleep for ever.
            if self._queue:
                with suppress(IndexError):  # another leader may have served it meanwhile
                    self._queue[0].wake()

    def ask(self, question: Question[R]) -> R:
        """Answer a question. What only the store knows is read beside the work, even while commits fail."""
        if type(question) is GetHistory and self.writer.stopped is None and self.writer.index_backlog:
            with self._turn:
                self.rounds.catch_up()
        if type(question) in STORED:
            return self._ask_store(question)
        return self.read(lambda state: answer(question, state, self.writer.store, self.clock.now()))

    def _ask_store(self, question: Question[R]) -> R:
        try:
            return answer(question, self.writer.state, self.writer.store, self.clock.now())
        except StoreError as error:
            if self.writer.stopped is None:
                raise
            raise EngineStopped(f"the engine has stopped: {self.writer.stopped}") from error

    def wait_end(self, job_id: str, within: float) -> bool:
        """Wait until a job has ended; false if it has not in time, `JobNotFound` if there is no such job."""
        if self.read(lambda state: job_id not in state.jobs):
            self.ask(GetJob(job_id))  # memory may have forgotten it; the store has not
            return True
        return self.wait_for(lambda state: ended(state, job_id), within) is True

    def work(self, asked: Work) -> Worked:
        """Carry out a worker's words in one commit and tell it what is new; wait for news if there is none."""
        if asked.logs or self._unheard(asked) is not None:
            self._hear(asked)
        replies = self.do_all(asked.words)
        refused = tuple(refusal(place, r) for place, r in enumerate(replies) if isinstance(r, Exception))
        with self._turn:
            found = self._news(asked)
            if asked.within > 0 and not (refused or found.news):
                self._changed.wait_for(lambda: self._unheard(asked) or self._news(asked).news, asked.within)
                found = self._news(asked)
        return msgspec.structs.replace(found, refused=refused) if refused else found

    def _hear(self, asked: Work) -> None:
        """A worker that speaks is there again; its output comes before the word that ends the lease."""
        with self._turn:
            self._keep_output(asked)
            hello = self._unheard(asked)
            if hello is not None:
                self.writer.accept(hello, self.clock.now(), lambda _: None)
            self._drain()

    def _unheard(self, asked: Work) -> c.Command[Any] | None:
        return None if self.writer.stopped is not None else hello_of(self.writer.state, asked)

    def hung_up(self, worker_id: str) -> None:
        """A connection of a worker has ended: it is given nothing until it speaks again."""
        with self._turn:
            worker = self.writer.state.workers.get(worker_id) if self.writer.stopped is None else None
            if worker is not None and worker.status == "ready" and not worker.spec.pull:
                self._register(worker.spec, pull=True)
                self._drain()

    def _register(self, spec: WorkerSpec, *, pull: bool) -> None:
        command = c.RegisterWorker(msgspec.structs.replace(spec, pull=pull))
        self.writer.accept(command, self.clock.now(), lambda _: None)

    def _keep_output(self, asked: Work) -> None:
        for said in asked.logs if self.writer.stopped is None else ():
            row = log_row(self.writer.state, *said)
            if row is not None:
                self.writer.record(LOG, self.clock.now(), *row)

    def _news(self, asked: Work) -> Worked:
        return self.read(lambda state: news(state, asked, self.clock.now()))

    def wait_lease(self, asked: WaitLease) -> Lease | None:
        """Wait until an external job has its lease; none if it has not in time, or has ended."""
        found = self.wait_for(lambda state: external_lease(state, asked.job_id), asked.within)
        return found if isinstance(found, Lease) else None

    def read(self, question: Callable[[State], R]) -> R:
        """Ask the state something."""
        with self._turn:
            if self.writer.stopped is not None:
                raise EngineStopped(f"the engine has stopped: {self.writer.stopped}")
            return question(self.writer.state)

    def wait_for(self, question: Callable[[State], R | None], within: float | None = None) -> R | None:
        """Wait until the question has an answer; none if it has not in time."""
        with self._turn:
            self._changed.wait_for(lambda: self.writer.stopped is not None or self.read(question), within)
            return self.read(question)

    def recovered(self, within: float | None = None) -> bool:
        """Wait until the engine serves, after a failed commit; false if it does not in time."""
        with self._turn:
            return self._changed.wait_for(lambda: self.writer.stopped is None, within)

    def record(self, kind: str, key: str, body: bytes) -> None:
        """Add an entry to a log (a job's output, the audit): it is committed at once."""
        with self._turn:
            if self.writer.stopped is None:
                self.writer.record(kind, self.clock.now(), key, body)
                self._drain()

    def compact(self, retention: Retention) -> Compacted:
        """Delete everything older than the given ages, while others go on between the commits."""
        with self._turn:
            self._drain()
            self.rounds.catch_up()
            steps = self.writer.sweep(retention, self.clock.now())
        total = Compacted()
        while (gone := self._drop_next(steps)) is not None:
            total = counted(total, gone)
        while self._shrink():
            pass
        return total

    def _drop_next(self, steps: Iterator[Gone]) -> Gone | None:
        with self._turn:
            self.read(lambda _: None)  # it may have stopped meanwhile
            gone = next(steps, None)
            if gone is not None:
                self.writer.drop(gone)
            return gone

    def _shrink(self) -> bool:
        with self._turn:
            return self.writer.stopped is None and self.writer.store.shrink(spare=0.0)

    def subscribe(self, limit: int = 10_000, wants: Callable[[Event], bool] | None = None) -> Subscription:
        """Listen to committed events."""
        with self._turn:
            return self.writer.feed.subscribe(limit, wants)

    def _drain(self) -> None:
        """1. carry out the commands, 2. plan, 3. commit, 4. hand out the answers."""
        tickets: list[_Waiting] = []
        queue = self._queue
        while queue:
            tickets.append(queue.popleft())
        try:
            self.rounds.accept(tickets, self.clock.now())
            self._commit(callers_of(tickets))
        except Exception as error:  # noqa: BLE001 - the writer has told those who wait; tell the rest
            self.writer.halt(error)
            for ticket in tickets:
                ticket.done(error)
        self._changed.notify_all()
        if self.writer.stopped is not None or self.rounds.too_late():
            self._nudge.set()

    def _commit(self, callers: set[Hashable]) -> None:
        group = self.writer.write()
        if group is not None:
            began = self.clock.now()
            self.writer.seal(group)
            self._company.served(callers, began)
            self.writer.tell(group)

    # -- time ---------------------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        while not self._stopping.is_set():
            with self._turn:
                now = self.clock.now()
                until = self.rounds.next_pass(now)
            self._nudge.wait(max(0.0, (until - now) / 1000))
            self._nudge.clear()
            if self._stopping.is_set():
                return
            with self._turn:
                self.rounds.pass_time(self.clock.now())
                self._changed.notify_all()
            if self.rounds.deposed:
                self.on_deposed()
                return
