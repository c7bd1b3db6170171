"""The engine for threads: whoever comes first does everybody's work.

A caller leaves its command in a queue. If nobody leads, it leads: it carries out all commands in the queue, lets the
policy plan, looks who of those that wait for something has it now, commits once, and hands out the answers; then it
names whoever waits first to lead next. Those who do not lead sleep until they are woken with their answer. So one
caller pays for one commit and no hand-over, and many callers share commits. A timer thread takes its turn like anybody
else.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

import msgspec

from headgate.core import commands as c
from headgate.core.events import Event
from headgate.core.lease import Lease
from headgate.core.retention import Retention
from headgate.core.state import State
from headgate.engine.compacting import counted
from headgate.engine.errors import EngineStopped
from headgate.engine.feed import Subscription
from headgate.engine.questions import STORED, GetHistory, GetJob, Question, answer, ended
from headgate.engine.rounds import STANDBY_EVERY, Bundle, Pending, Rounds
from headgate.engine.vigils import Awaited, Listening, Said, Sleeper, Vigil, Vigils
from headgate.engine.working import WaitLease, Work, Worked, external_lease
from headgate.engine.writer import Writer
from headgate.ports import Clock, Compacted, Gone, StoreError

R = TypeVar("R")


class _Call:
    """What a thread has to say and to ask; it may sleep until it is settled."""

    __slots__ = ("sleeper", "ticket", "vigils")

    def __init__(self, ticket: Pending[Any], vigils: Sequence[Vigil[Any]] = ()) -> None:
        self.ticket = ticket
        self.vigils = vigils
        self.sleeper = Sleeper()
        ticket.on_settled = self.sleeper.wake


class SharedEngine:
    """A writer shared by the threads of a process."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self.writer = writer
        self.rounds = Rounds(writer)
        self.clock = clock
        self.on_deposed: Callable[[], None] = lambda: None
        """Called once, when another engine has taken the store over."""
        self._turn = threading.RLock()
        self._leading = allocate_lock()
        self._queue: deque[_Call] = deque()
        self._vigils = Vigils()
        self._recovered = threading.Condition(self._turn)
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
            self._round()
            self.rounds.catch_up()
            self.writer.close()
            self._give_up()

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
        bundle = Bundle(commands)
        self._settle(_Call(bundle))
        return bundle.replies()

    def _settle(self, call: _Call) -> None:
        """Lead if nobody does, otherwise sleep until the answer is there or it is this caller's turn to lead."""
        ticket = call.ticket
        self._queue.append(call)
        while not ticket.settled:
            if not self._leading.acquire(blocking=False):
                call.sleeper.sleep()
                continue
            try:
                with self._turn:
                    if not ticket.settled:
                        self._round()
            finally:
                self._leading.release()
            # After the release: who came too late to be served, and too early to lead, would sleep for ever.
            if self._queue:
                with suppress(IndexError):  # another leader may have served it meanwhile
                    self._queue[0].sleeper.wake()

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
            raise self._stopped() from error

    def wait_end(self, job_id: str, within: float) -> bool:
        """Wait until a job has ended; false if it has not in time, `JobNotFound` if there is no such job."""
        if self.read(lambda state: job_id not in state.jobs):
            self.ask(GetJob(job_id))  # memory may have forgotten it; the store has not
            return True
        return self.wait_for(lambda state: ended(state, job_id), within) is True

    def work(self, asked: Work) -> Worked:
        """Carry out a worker's words in one commit and tell it what is new; wait for news if there is none."""
        said, sleeper = Said(asked), Sleeper()
        listening = Listening(said, sleeper.wake)
        self._settle(_Call(said, (listening,)))
        return self._keep(listening, sleeper, asked.within)

    def serve(self, tickets: Iterable[Pending[Any]], vigils: Iterable[Vigil[Any]]) -> None:
        """Carry out what somebody else has sent, in one commit. Whoever waits is told, now or after a later round."""
        with self._turn:
            self._round(tickets, vigils)

    def hung_up(self, worker_id: str) -> None:
        """A connection of a worker has ended: it is given nothing until it speaks again."""
        with self._turn:
            worker = self.writer.state.workers.get(worker_id) if self.writer.stopped is None else None
            if worker is not None and worker.status == "ready" and not worker.spec.pull:
                command = c.RegisterWorker(msgspec.structs.replace(worker.spec, pull=True))
                self.writer.accept(command, self.clock.now(), lambda _: None)
                self._round()

    def wait_lease(self, asked: WaitLease) -> Lease | None:
        """Wait until an external job has its lease; none if it has not in time, or has ended."""
        found = self.wait_for(lambda state: external_lease(state, asked.job_id), asked.within)
        return found if isinstance(found, Lease) else None

    def read(self, question: Callable[[State], R]) -> R:
        """Ask the state something."""
        with self._turn:
            if self.writer.stopped is not None:
                raise self._stopped()
            return question(self.writer.state)

    def wait_for(self, question: Callable[[State], R | None], within: float | None = None) -> R | None:
        """Wait until the question has an answer; none if it has not in time."""
        sleeper = Sleeper()
        vigil = Awaited(question, sleeper.wake)
        with self._turn:
            self._tell(self._look((vigil,), self.clock.now()))
        return self._keep(vigil, sleeper, within)

    def _keep(self, vigil: Vigil[R], sleeper: Sleeper, within: float | None) -> R:
        if not sleeper.sleep(within):
            self.give_up(vigil)
        return vigil.result()

    def give_up(self, vigil: Vigil[Any]) -> bool:
        """Wait no longer: the answer is what it is now. False if it was told meanwhile."""
        with self._turn:
            if not self._vigils.drop(vigil):
                return False
            vigil.ask(self.writer.state, self.clock.now())
            return True

    def recovered(self, within: float | None = None) -> bool:
        """Wait until the engine serves, after a failed commit; false if it does not in time."""
        with self._turn:
            return self._recovered.wait_for(lambda: self.writer.stopped is None, within)

    def record(self, kind: str, key: str, body: bytes) -> None:
        """Add an entry to a log (a job's output, the audit): it is committed at once."""
        with self._turn:
            if self.writer.stopped is None:
                self.writer.record(kind, self.clock.now(), key, body)
                self._round()

    def compact(self, retention: Retention) -> Compacted:
        """Delete everything older than the given ages, while others go on between the commits."""
        with self._turn:
            self._round()
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

    # -- rounds -------------------------------------------------------------------------------------------------

    def _round(self, tickets: Iterable[Pending[Any]] = (), vigils: Iterable[Vigil[Any]] = ()) -> None:
        """1. carry out the commands, 2. plan, 3. look who has an answer, 4. commit, 5. hand out the answers."""
        served, new, queue = list(tickets), list(vigils), self._queue
        while queue:
            call = queue.popleft()
            served.append(call.ticket)
            new += call.vigils
        over = new
        try:
            now = self.clock.now()
            self.rounds.accept(served, now)
            over = self._look(new, now)
            self.writer.flush()
        except Exception as error:  # noqa: BLE001 - the writer has told those who wait; tell the rest
            self.writer.halt(error)
            for ticket in served:
                ticket.done(error)
            over = self._vigils.fail(error, over)
        self._tell(over)
        if self.writer.stopped is not None or self.rounds.too_late():
            self._nudge.set()

    def _look(self, new: Iterable[Vigil[Any]], now: int) -> list[Vigil[Any]]:
        """Who has an answer now; it may be told when what has happened is durable."""
        if self.writer.stopped is not None:
            return self._vigils.fail(self._stopped(), new)
        return self._vigils.over(self.writer.state, now, new, changed=self.writer.changed)

    def _give_up(self) -> None:
        self._tell(self._vigils.fail(self._stopped()))

    @staticmethod
    def _tell(over: list[Vigil[Any]]) -> None:
        for vigil in over:
            vigil.on_over()

    def _stopped(self) -> EngineStopped:
        return EngineStopped(f"the engine has stopped: {self.writer.stopped}")

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
                self._look_around()
            if self.rounds.deposed:
                self.on_deposed()
                return

    def _look_around(self) -> None:
        """Time has passed, and all of it is durable."""
        if self.writer.stopped is not None:
            self._give_up()
            return
        self._tell(self._vigils.over(self.writer.state, self.clock.now(), (), changed=True))
        self._recovered.notify_all()
