"""The worker: takes leases through a link, does the work, and says what became of it.

Threads: one for each slot; a speaker that says words in batches; a beater that renews leases at a third of their
time; a guard that stops work whose lease cannot be renewed; a watcher that hears of cancellations while all slots are
busy. A slot without work leads: it waits at the link itself, so that a new lease is begun by the thread that got it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from headgate.core.errors import HeadgateError
from headgate.ports import Clock
from headgate.wire.http import ErrorOut, WorkerIn
from headgate.wire.stream import Word
from headgate.worker.complaints import Complaints
from headgate.worker.context import JobStopped
from headgate.worker.executors import Executors
from headgate.worker.hand import MANY, Hand, Holding
from headgate.worker.handlers import failure
from headgate.worker.link import Link, LinkDown, Turn
from headgate.worker.nursery import HandlerFailed

_log = logging.getLogger(__name__)
GATHER = 0.005
"""Seconds that words wait for company."""
QUICK = 50
"""Milliseconds after which a job is worth watching."""
_LASTING = frozenset(
    {"stale_lease", "outcome_conflict", "illegal_transition", "conflict", "worker_busy", "invalid_input", "invalid_job"}
    | {"job_not_found", "not_found"}
)


class Options(msgspec.Struct, frozen=True):
    """How patient a worker is, in seconds."""

    poll: float = 1.0
    """The longest wait at the link in one go."""
    grace: float = 5.0
    """What a job that is told to stop has before it is killed."""
    drain: float = 30.0
    """What running jobs have to finish when the worker leaves."""
    idle_beat: float = 10.0


class Runtime:
    """One worker. `start`, then `stop`; or `run_until` an event is set."""

    def __init__(
        self, link: Link, spec: WorkerIn, executors: Executors, clock: Clock, options: Options | None = None
    ) -> None:
        self.spec = spec
        self.dismissed: Callable[[str], None] | None = None
        """Called with the reason when the worker was told to leave; its jobs have been told to stop."""
        self.completed = self.failed = self.stale = 0
        self._link = link
        self._executors = executors
        self._clock = clock
        self._options = options or Options()
        self._hand = Hand()
        self._complaints = Complaints(_log, clock)
        self._speaking = threading.Lock()
        self._leader = False
        self._draining = threading.Event()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> Runtime:
        """Register and begin to work."""
        self._link.register(self.spec)
        loops: list[Callable[[], None]] = [self._speak_loop, self._beat_loop, self._guard_loop, self._watch_loop]
        loops += [self._slot_loop] * self.spec.slots
        for loop in loops:
            thread = threading.Thread(target=loop, name=f"headgate-{loop.__name__.strip('_')}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def run_until(self, enough: threading.Event) -> None:
        """Work until the event is set, here or because the worker was told to leave; then drain."""
        self.dismissed = self.dismissed or (lambda _: enough.set())
        self.start()
        try:
            enough.wait()
        finally:
            self.stop()

    def stop(self) -> None:
        """Take nothing more, give back what has not begun, let running jobs finish in time, leave."""
        self._draining.set()
        self._try(self._link.drain)
        for holding in self._hand.snapshot():
            if holding.begun_at is None:
                self._give_back(holding)
        self._await_running(self._options.drain)
        for holding in self._hand.snapshot():
            holding.told = True
            holding.context.stop("the worker leaves", self._options.grace)
        self._await_running(self._options.grace + 5.0)
        self._try(self._speak)
        self._close()

    def _close(self) -> None:
        self._closed.set()
        with self._hand.lock:
            for condition in (self._hand.work_came, self._hand.words_came, self._hand.roused):
                condition.notify_all()
        self._try(self._link.leave)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(self._options.poll + 2.0)
        self._link.close()
        self._executors.close()

    def _await_running(self, patience: float) -> None:
        with self._hand.lock:
            self._hand.emptied.wait_for(lambda: not self._hand.held, patience)

    @staticmethod
    def _try(step: Callable[[], object]) -> None:
        try:
            step()
        except HeadgateError as error:
            _log.warning("while leaving: %s", error)

    # -- slots ----------------------------------------------------------------------------------------------------

    def _slot_loop(self) -> None:
        while not self._closed.is_set():
            holding = self._next()
            if holding is not None:
                self._do(holding)

    def _next(self) -> Holding | None:
        """The next lease to work on; none if it has to be looked for again."""
        hand = self._hand
        with hand.lock:
            if hand.ready:
                return hand.ready.popleft()
            if self._leader or self._draining.is_set():
                hand.await_work(self._options.poll)
                return None
            self._leader = True
        draining = False
        try:
            draining = self._listen(wants=True).draining
        finally:
            with hand.lock:
                self._leader = False
                first = hand.ready.popleft() if hand.ready else None
                hand.tell_idle()
        if draining and first is None:
            self._draining.wait(self._options.poll)
        return first

    def _do(self, holding: Holding) -> None:
        """One job from the lease to its outcome."""
        if not self._begin(holding):
            return
        words = self._outcome(holding)
        more = self._hand.drop(holding, *(() if holding.lost else words))
        if not more or self._draining.is_set():
            self._speak()

    def _begin(self, holding: Holding) -> bool:
        """Whether the work may begin: the lease is known to hold, and nobody wants it back."""
        if holding.work.begun:
            lost = ErrorOut("worker_restarted", "the worker that had begun it was started anew")
            self._hand.drop(holding, holding.word("fail", error=lost))
            return False
        now = self._clock.now()
        sure = self._sure(holding, now)
        if not sure:
            self._renew([holding])
            now = self._clock.now()
            sure = self._sure(holding, now)
        if not sure or holding.lost or holding.told or self._draining.is_set():
            self._give_back(holding)
            return False
        holding.begun_at = now
        self._hand.say(holding.word("start"))
        return True

    @staticmethod
    def _sure(holding: Holding, now: int) -> bool:
        """Whether at least a third of the lease's time is left, as far as this machine can tell."""
        return holding.sure_until is not None and holding.sure_until - now > holding.work.ttl // 3

    def _give_back(self, holding: Holding) -> None:
        self._hand.drop(holding, *(() if holding.lost else [holding.word("release")]))

    def _outcome(self, holding: Holding) -> list[tuple[str, Word]]:
        context, output = holding.context, holding.output
        try:
            result = self._executors.run(holding.work, context, output)
        except HandlerFailed as error:
            said = error.said
            return self._not_done(holding, said.error or ErrorOut("error"), again=said.retry)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is the job's failure, not ours
            reported, again = failure(error)
            return self._not_done(holding, reported, again=again and not isinstance(error, SystemExit))
        self.completed += 1
        return [holding.word("complete", result=msgspec.Raw(result), log=output.rest())]

    def _not_done(self, holding: Holding, error: ErrorOut, *, again: bool) -> list[tuple[str, Word]]:
        log = holding.output.rest()
        if holding.told and holding.context.stopped:
            return [holding.word("release", log=log)]
        self.failed += 1
        if holding.timed_out:
            error, again = ErrorOut("timeout", "it ran longer than its timeout"), True
        elif error.code == JobStopped.code and holding.context.stopped:
            error = ErrorOut("stopped", holding.context.stop_reason)
        return [holding.word("fail", error=error, retry=again, log=log)]

    # -- words and news -------------------------------------------------------------------------------------------

    def _speak(self) -> None:
        """Say what is to be said; whoever comes first takes everybody's words."""
        with self._speaking:
            words = self._hand.take_words()
            if not words:
                return
            try:
                turn = self._turn(words, wants=not self._draining.is_set(), within=0.0)
            except LinkDown as error:
                self._complaints.say("words have to wait", error)
                self._hand.put_back(words)
                self._closed.wait(0.2)
                return
            self._settle(words, turn)

    def _listen(self, *, wants: bool) -> Turn:
        """Wait at the link for news."""
        try:
            return self._turn([], wants=wants, within=self._options.poll)
        except LinkDown as error:
            if not self._closed.wait(0.2):
                self._complaints.say("cannot listen", error)
            return Turn()

    def _turn(self, words: list[tuple[str, Word]], *, wants: bool, within: float) -> Turn:
        held, told = self._hand.known(closing=not words)
        try:
            turn = self._link.turn(words, held, told, wants=wants, within=within)
        except LinkDown:
            raise
        except HeadgateError as error:
            if error.code == "worker_not_found" and not self._draining.is_set():
                self._link.register(self.spec)
            raise LinkDown(str(error)) from error
        self._take_in(turn)
        return turn

    def _take_in(self, turn: Turn) -> None:
        if turn.grants:
            self._hand.take_in(turn.grants, self._report)
        for lease_id in turn.gone:
            holding = self._hand.held.get(lease_id)
            if holding is not None:
                self._lose(holding, "the lease is over", min(2.0, self._options.grace))
        for lease_id, left in turn.let_go:
            holding = self._hand.held.get(lease_id)
            if holding is not None:
                self._make_room(holding, left)
        if turn.leave:
            self._dismiss(turn.leave)

    def _dismiss(self, why: str) -> None:
        """Nothing new is begun, and what runs stops at once; the leases go back."""
        _log.warning("told to leave: %s", why)
        self._draining.set()
        for holding in self._hand.snapshot():
            holding.told = True
            if holding.begun_at is None:
                self._give_back(holding)
            else:
                holding.context.stop(why, self._options.grace)
        if self.dismissed is not None:
            self.dismissed(why)

    def _lose(self, holding: Holding, why: str, grace: float) -> None:
        holding.lost = True
        if holding.begun_at is None:
            self._hand.drop(holding)
        else:
            holding.context.stop(why, grace)

    def _make_room(self, holding: Holding, left: int) -> None:
        holding.told = True
        if holding.begun_at is not None:
            holding.context.stop(
                "room is needed for another job", max(0.1, min(self._options.grace, left / 1000 - 0.5))
            )

    def _settle(self, words: list[tuple[str, Word]], turn: Turn) -> None:
        self._hand.said(words)
        for place, error in turn.refused:
            job_id, word = words[place]
            holding = self._hand.held.get(word.lease_id)
            if error.code not in _LASTING:
                self._hand.put_back([(job_id, word)])
                self._closed.wait(0.05)
            elif word.verb == "complete" and error.code.startswith("invalid"):
                self._hand.say((job_id, msgspec.structs.replace(word, verb="fail", error=error, retry=False)))
            else:
                self.stale += word.verb in ("complete", "fail")
                _log.warning("%s of job %s was refused: %s", word.verb, job_id, error.message)
                if holding is not None:
                    self._lose(holding, error.message, min(2.0, self._options.grace))

    def _report(self, holding: Holding, fraction: float | None, note: str) -> None:
        job_id, word = holding.word("progress", fraction=fraction, note=note, log=holding.output.take())
        self._hand.say_progress(job_id, word)

    # -- the other threads ----------------------------------------------------------------------------------------

    def _speak_loop(self) -> None:
        """Words that nobody else says. One that has just come is left alone: a quick job says its end with it."""
        hand, idle = self._hand, 0
        while not self._closed.is_set():
            with hand.lock:
                if idle > 2 and not hand.words:
                    hand.speaker_sleeps = True
                    hand.words_came.wait()
                    hand.speaker_sleeps = False
                before = hand.taken
                if hand.words < MANY:
                    hand.words_came.wait(GATHER)
                if hand.held and hand.resting:
                    hand.roused.notify_all()
                old = hand.taken == before
            idle = 0 if hand.words else idle + 1
            if old or hand.words >= MANY:
                self._speak()

    def _beat_loop(self) -> None:
        while not self._closed.is_set():
            held = self._hand.snapshot()
            heard = self._renew(held)
            if not held:
                self._hand.rest(self._options.idle_beat)
                continue
            every = min(holding.work.ttl for holding in held) / 3000
            self._closed.wait(every if heard else min(every, 0.5))

    def _renew(self, held: list[Holding]) -> bool:
        """Renew leases, counted from before the question was asked; false if the engine could not be asked."""
        asked_at = self._clock.now()
        try:
            beats = self._link.beat([(holding.work.lease_id, holding.work.token) for holding in held])
        except HeadgateError as error:
            self._complaints.say("cannot renew", error)
            return False
        by_id = {beat.lease_id: beat for beat in beats}
        for holding in held:
            beat = by_id.get(holding.work.lease_id)
            if beat is None:
                continue
            if beat.stale:
                self._lose(holding, "the lease is over", min(2.0, self._options.grace))
                continue
            holding.sure_until = asked_at + holding.work.ttl
            if beat.let_go_by is not None and not holding.told:
                self._make_room(holding, round((beat.let_go_by - beat.expires_at) * 1000) + holding.work.ttl)
        return True

    def _guard_loop(self) -> None:
        """Stops what may not go on. It never talks to anybody, so nothing can hold it up."""
        while not self._closed.is_set():
            held = self._hand.snapshot()
            if not held:
                self._hand.rest(None)
                continue
            for holding in held:
                if holding.begun_at is not None:
                    self._guard(holding, self._clock.now())
            self._closed.wait(min(1.0, min(holding.work.ttl for holding in held) / 12_000))

    def _guard(self, holding: Holding, now: int) -> None:
        ttl, timeout = holding.work.ttl, holding.work.timeout
        if holding.sure_until is not None and now > holding.sure_until - ttl // 6 and not holding.context.stopped:
            holding.told = True
            holding.context.stop("the lease could not be renewed", min(self._options.grace, ttl / 12_000))
        if timeout is not None and holding.begun_at is not None and now > holding.begun_at + timeout + 500:
            holding.timed_out = True
            holding.context.stop("it ran longer than its timeout", self._options.grace)
        if log := holding.output.take():
            self._hand.say(holding.word("progress", log=log))

    def _watch_loop(self) -> None:
        """While all slots are busy nobody leads: hear of cancelled and preempted leases all the same."""
        while not self._closed.is_set():
            if not self._hand.held:
                self._hand.rest(None)
            elif not self._closed.wait(QUICK / 1000) and self._worth_watching():
                self._listen(wants=False)

    def _worth_watching(self) -> bool:
        if self._leader:
            return False
        now = self._clock.now()
        return any(h.begun_at is not None and now - h.begun_at >= QUICK for h in self._hand.snapshot())
