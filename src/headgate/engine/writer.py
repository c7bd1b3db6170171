"""The single writer: commands in, group commits out, acknowledgements only after the commit returned.

Synchronous and deterministic: time, chance, store and policy are handed in. The asyncio shell and the simulation
drive the same writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import Action, Wait
from headgate.core.decide import decide, decide_all
from headgate.core.lease import epoch_of
from headgate.core.ordering import Decider, Note, Policy
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.engine.compacting import MOST, Compactor, sweep
from headgate.engine.errors import EngineStopped
from headgate.engine.failpoints import Hook
from headgate.engine.feed import Feed
from headgate.engine.forgotten import Forgotten
from headgate.engine.index import HistoryIndex
from headgate.engine.recovery import recover
from headgate.engine.rows import Changes
from headgate.engine.soundness import check_mark, reading
from headgate.ports import RESTORE_LEAP, Batch, Chance, CommitFailed, Gone, Mark, OldEnd, OpensBeside, RecordRow, Store

R = TypeVar("R")
Done = Callable[[Exception | None], None]

_WORDS = frozenset({c.Start, c.Heartbeat, c.Heartbeats, c.Progress, c.Complete, c.Fail, c.Release, c.WorkerBeat})
"""Commands that ask nothing of the store and leave nothing for a log: many of them are as good as one."""
_PLAIN = _WORDS | {c.Submit}
_WAKING = frozenset({e.JobSubmitted, e.JobUnblocked, e.JobDue, e.JobPatched, e.JobAged})
MOST_PER_CYCLE = 10_000
KEEP_LOAD = 10_000
"""Milliseconds between two samples of one source that are kept."""
INDEX_ROWS = 2_000
_LOOKS = 10
"""Steps of a sweep that find nothing to delete, before others get their turn."""


class Group:
    """What is committed together: its batch, its events for the feed, and who waits for it."""

    def __init__(self) -> None:
        self.events: list[e.Event] = []
        self.waiting: list[Done] = []
        self.batch: Batch | None = None


def _pause_of(lease_ttl: int) -> int:
    """A silence of the engine that could cost a holder its lease; never less than two of the shells' ticks."""
    return max(2_000, min(5_000, lease_ttl // 2))


def moved_on(actions: list[Action], scheduled: c.Scheduled) -> bool:
    """Whether asking again could help: something was done, and the policy did not say to wait."""
    return len(scheduled.refused) < len(actions) and Wait not in map(type, actions)


class Writer:
    """Owns the state and the store."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        chance: Chance,
        settings: Settings | None = None,
        *,
        pause: int | None = None,
        failpoint: Hook | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.store = store
        self.policy = policy
        self.feed = Feed()
        self.observers: list[Callable[[list[e.Event], State], None]] = []
        """Called with events as they happen, before they are durable: for mirrors of the state, not for replies."""
        self._decider = policy if isinstance(policy, Decider) else None
        if self._decider is not None:
            self.observers.append(self._decider.observe)
        self._chance = chance
        self._pause = _pause_of(self.settings.lease_ttl) if pause is None else pause
        self._failpoint = failpoint
        self._forgotten = Forgotten(store)
        self.stopped: Exception | None = EngineStopped("the engine has not been opened")
        self.recoveries = 0
        self.policy_problem: str | None = None
        """Why the policy could not be asked, the last time it was."""
        self._load_kept: dict[str, int] = {}

    # -- opening and recovery -----------------------------------------------------------------------------------

    def open(self, now: int) -> None:
        """Become the owner of the store and rebuild the state. Every live lease gets a full TTL."""
        first = self.recoveries == 0
        try:
            self._open(now)
        except BaseException:
            if first:  # nobody will use it; after a failed commit the owner stays, and tries again
                self.store.close()
            raise

    def _open(self, now: int) -> None:
        def rebuild(mark: Mark) -> tuple[Mark, State, Changes]:
            check_mark(self.store.name, mark)
            return mark, *recover(self.store, self.settings, mark, now)

        store = self.store
        built = store.open_beside(rebuild) if isinstance(store, OpensBeside) else rebuild(store.open())
        mark, self.state, self._changes = built
        self.number = mark.number
        if len(self.state.finished) >= self.settings.retain_finished:  # there may be more than were loaded
            self._forgotten.note(self.state.jobs)
        self._group = Group()
        self._sealing: Group | None = None
        self._record_number = 0
        with reading(f"{self.store.name}: the journal"):
            self._index = HistoryIndex(self._seq_of, self.store.journal, mark.indexed)
        self._compactor = Compactor(self.store, self.settings.retention, self._forget)
        self._room = -1
        self._wake = True
        self._last_now = now
        self.stopped = None
        self.recoveries += 1
        self._hit("recover.after")
        self._void_leases_of_another_time(now)
        self._take(c.Resume(), now)

    def _void_leases_of_another_time(self, now: int) -> None:
        """After a restore the holders in the copy may have finished long since: their tokens must not count."""
        for lease in list(self.state.leases.values()):
            if self.state.epoch - epoch_of(lease.token) >= RESTORE_LEAP:
                self._take(c.Release(lease.id, lease.token), now)

    def _seq_of(self, job_id: str) -> int | None:
        job = self.state.jobs.get(job_id)
        if job is not None:
            return job.seq
        view = self.store.get_job(job_id)
        return None if view is None else view.job.seq

    # -- commands -----------------------------------------------------------------------------------------------

    def accept(self, command: c.Command[R], now: int, done: Done) -> R:
        """Carry out a command; `done` is called when its effects are durable, or with the error if they never are.

        A typed refusal is raised at once and changes nothing.
        """
        self._turn_to(now)
        reply = self._look_and_take(command, now)
        self.when_durable(done)
        return reply

    def accept_all(self, commands: Sequence[c.Command[Any]], now: int, done: Done) -> list[Any]:
        """Carry out several commands in order, each for itself: a refusal stands in the place of the reply."""
        replies = self.take_all(commands, now)
        self.when_durable(done)
        return replies

    def take_all(self, commands: Sequence[c.Command[Any]], now: int) -> list[Any]:
        """The same without waiting: whoever is told of it asks `when_durable` first."""
        self._turn_to(now)
        together = self._together(commands)
        if together is None:
            return [self._try(command, now) for command in commands]
        outcome = decide_all(self.state, together, now, self._chance.uniform)
        self._took(outcome.events, now)
        return outcome.reply

    def _together(self, commands: Sequence[c.Command[Any]]) -> Sequence[c.Command[Any]] | None:
        """The commands as they can be carried out in one go; none if each has to be by itself."""
        if _WORDS.issuperset(map(type, commands)):
            return commands
        if not _PLAIN.issuperset(map(type, commands)):
            return None
        try:
            return [self._recalled(command) for command in commands]
        except Exception:  # noqa: BLE001 - it is met again, and told to its caller, when its turn comes
            return None

    def _turn_to(self, now: int) -> None:
        if self.stopped is not None:
            raise EngineStopped(f"the engine has stopped: {self.stopped}") from self.stopped
        self._notice_pause(now)

    def _try(self, command: c.Command[R], now: int) -> R | Exception:
        try:
            return self._look_and_take(command, now)
        except Exception as error:  # noqa: BLE001 - it is that caller's alone
            return error

    def _look_and_take(self, command: c.Command[R], now: int) -> R:
        return self._take(self._recalled(command), now)

    def _recalled(self, command: c.Command[R]) -> c.Command[R]:
        """The same command, told more."""
        return self._forgotten.recall(command, self.state) if type(command) is c.Submit else command  # type: ignore[return-value]

    def when_durable(self, done: Done) -> None:
        """Call `done` when everything that an answer given now may rest on is on the disk. Refusals rest on it too."""
        if self._changes:
            self._group.waiting.append(done)
        elif self._sealing is not None:
            self._sealing.waiting.append(done)
        else:
            done(None)

    def _take(self, command: c.Command[R], now: int) -> R:
        outcome = decide(self.state, command, now, self._chance.uniform)
        if type(command) is c.Tick or type(command) is c.Forget:
            for event in outcome.events:
                if type(event) is e.JobsForgotten:
                    self._forgotten.note(event.ids)
        if type(command) is c.SampleLoad:
            self._keep_load(outcome.events)
        self._took(outcome.events, now)
        return outcome.reply

    def _took(self, events: list[e.Event], now: int) -> None:
        """Events have been applied: they belong to the next commit, and observers hear of them."""
        self._changes.note(events, self.state)
        self._group.events += events
        self._last_now = max(self._last_now, now)
        if not self._wake:
            self._wake = not _WAKING.isdisjoint(map(type, events))
        for observer in self.observers:
            observer(events, self.state)

    def _keep_load(self, events: list[e.Event]) -> None:
        """A sample of each source every so often goes into the log of load."""
        for event in events:
            if type(event) is e.LoadSampled and event.at - self._load_kept.get(event.source, -KEEP_LOAD) >= KEEP_LOAD:
                self._load_kept[event.source] = event.at
                self.record("load", event.at, event.source, e.encode([event]))

    def _notice_pause(self, now: int) -> None:
        """If the engine itself was away, the holders could not renew: give them time before anything expires."""
        if now - self._last_now > self._pause:
            self._take(c.Resume(), now)

    def tick(self, now: int) -> None:
        """Let time pass: timers, ageing, capacity; then see whether anything can start."""
        if self.stopped is None:
            self._notice_pause(now)
            self._take(c.Tick(), now)
            self._wake = True

    def record(self, kind: str, at: int, key: str, body: bytes) -> None:
        """Add an entry to a log; it is committed with whatever comes next."""
        self._record_number += 1
        number = self.number << 24 | self._record_number
        self._changes.records.append(RecordRow(kind, at, number, key, body))

    # -- the scheduling cycle -----------------------------------------------------------------------------------

    def wants_cycle(self) -> bool:
        """Whether anything has happened since the last cycle that could let a job start."""
        return self.stopped is None and self.state.ready.size > 0 and (self._wake or self.state.room != self._room)

    def cycle(self, now: int) -> int:
        """Ask the policy until it has nothing more to propose; returns the number of leases granted."""
        granted = 0
        self.cycle_begins()
        while granted < MOST_PER_CYCLE:
            actions = self._proposals(now)
            if not actions:
                break
            scheduled = self.dispose(actions, now)
            granted += len(scheduled.granted)
            if not moved_on(actions, scheduled):
                break
        return granted

    def _proposals(self, now: int) -> list[Action]:
        """What the policy proposes; one that raises starts nothing, and its error is kept for all to see."""
        try:
            actions = self.policy.propose(self.state, now)
        except Exception as error:  # noqa: BLE001 - it is the policy's, and must not stop the engine
            self.policy_problem = f"{type(error).__name__}: {error}"
            return []
        self.policy_problem = None
        return actions

    def dispose(self, actions: list[Action], now: int) -> c.Scheduled:
        """Carry out a plan and keep what the policy wants kept of it."""
        scheduled = self._take(c.Schedule(tuple(actions)), now)
        if self._decider is not None:
            for wish in self._decider.disposed(scheduled, now):
                if isinstance(wish, Note):
                    self.record(wish.kind, now, wish.key, wish.body)
                else:
                    self._take(wish, now)
        return scheduled

    def cycle_begins(self) -> None:
        """Note that whatever has happened until now is being considered."""
        self._wake = False
        self._room = self.state.room

    # -- group commit -------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Commit everything since the last commit, then tell everybody."""
        group = self.write()
        if group is not None:
            self.seal(group)
            self.tell(group)

    def write(self) -> Group | None:
        """Hand the next batch to the store; none if nothing is waiting. What comes now belongs to the next group."""
        if self.stopped is not None:
            return None
        group, self._group = self._group, Group()
        if not self._changes:
            self.tell(group)
            return None
        self.number += 1
        events = len(self._changes.events)
        try:
            group.batch = self._changes.take(self.state, self.number, self._last_now)
        except Exception as error:  # something in it cannot be written down
            self.fail(group, error)
            raise
        if events:
            self._index.add(self.number, self._last_now, group.batch.journal, events, self._changes.seqs)
        return self._write(group)

    def index(self) -> None:
        """Catch up with the history of jobs, some rows at a time, in a commit of its own."""
        if self.stopped is not None or not self._index.backlog:
            return
        batch = self._own_batch()
        with reading(f"{self.store.name}: the journal"):
            batch.events, batch.indexed = self._index.take(INDEX_ROWS)
        self._commit_alone(batch)

    def compact(self, now: int) -> None:
        """Delete some of what has come of age, if a sweep is due or under way, in a commit of its own."""
        for _ in range(_LOOKS):
            gone = self._compactor.step(now) if self.stopped is None else None
            if gone is None or self.drop(gone):
                return

    def sweep(self, retention: Retention, now: int, most: int = MOST) -> Iterator[Gone]:
        """Everything older than other ages than those of the settings, to be dropped step by step."""
        return sweep(self.store, retention, now, self._forget, most=most)

    def drop(self, gone: Gone) -> bool:
        """Delete rows in a commit of its own; false if there are none."""
        if not gone or self.stopped is not None:
            return False
        batch = self._own_batch()
        batch.gone = gone
        self._commit_alone(batch)
        return True

    def _forget(self, old: list[OldEnd]) -> list[OldEnd]:
        """Forget jobs and say which may be deleted; not yet those whose history is still to be written."""
        told = self._index.told_before()
        ids = tuple(end.id for end in old if told is None or end.ended_at < told)
        may_go = self._take(c.Forget(ids), self._last_now) if ids else ()
        chosen = frozenset(may_go)
        return [end for end in old if end.id in chosen]

    def _own_batch(self) -> Batch:
        """A batch of the engine's own, which nobody waits for and which leaves nothing in the journal."""
        self.number += 1
        state, low_water = self.state, self._changes.low_water.mark
        return Batch(self.number, state.epoch, self._last_now, state.seq, state.tokens, low_water)

    def _commit_alone(self, batch: Batch) -> None:
        group = Group()
        group.batch = batch
        self.seal(self._write(group))
        self._sealing = None

    def _write(self, group: Group) -> Group:
        if group.batch is None:
            raise ValueError("a group is written with its batch")
        self._hit("commit.before")
        try:
            self.store.write(group.batch)
        except Exception as error:
            self.fail(group, error)
            raise
        self._sealing = group
        self._hit("commit.written")
        return group

    def seal(self, group: Group) -> None:
        """Make the group durable. May run in a thread while the writer takes further commands."""
        try:
            self.store.seal()
        except Exception as error:
            self.fail(group, error)
            raise
        self.sealed(group)

    def sealed(self, group: Group) -> None:
        """The group is durable; nobody has been told."""
        self._sealing = group
        self._hit("commit.after")

    def tell(self, group: Group) -> None:
        """Acknowledge and publish."""
        self._sealing = None
        for done in group.waiting:
            done(None)
        self.feed.publish(group.events)
        self._hit("reply.after")

    def halt(self, error: Exception) -> None:
        """Something nobody foresaw: what is in memory may be half done, so it is rebuilt from the disk."""
        self.fail(Group(), error)

    def fail(self, group: Group, error: Exception) -> None:
        """Memory is ahead of the disk: stop, and say so to everybody who waits."""
        if self.stopped is not None:
            return
        cause = error if isinstance(error, CommitFailed) else CommitFailed(f"the commit failed: {error}")
        self.stopped = cause
        if group.batch is not None and group.batch.jobs:  # one of them may be why: look each up when it comes again
            self._forgotten.note(row.id for row in group.batch.jobs)
        for done in [*group.waiting, *self._group.waiting]:
            done(cause)

    @property
    def changed(self) -> bool:
        """Whether anything has happened that is not on its way to the disk."""
        return bool(self._group.events)

    @property
    def behind(self) -> bool:
        """Whether there is upkeep to go on with soon."""
        return self._index.backlog > 0 or self._compactor.at_work

    @property
    def index_backlog(self) -> int:
        """Events that are not yet in the history of their jobs."""
        return self._index.backlog

    def close(self) -> None:
        """Stop and let go of the store; nothing that was not flushed is kept."""
        if self.stopped is None:
            self.stopped = EngineStopped("the engine was closed")
        self.store.close()

    def _hit(self, name: str) -> None:
        if self._failpoint is not None:
            self._failpoint(name)
