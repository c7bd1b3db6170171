"""What everybody was told: each answer the engine gave, each event it published, and what holders believe.

Some rules are checked the moment they could break; the rest waits for the checker at the end.
"""

from __future__ import annotations

from typing import Any

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.errors import DuplicateJob
from headgate.testing.simulation.disk import SimDisk
from headgate.testing.simulation.world import Violation, World


class Belief:
    """A holder's view of a lease. It may work until `until`, by its own clock, unless it was told to stop."""

    def __init__(self, lease_id: str, token: int, job_id: str, holder: str) -> None:
        self.lease_id = lease_id
        self.token = token
        self.job_id = job_id
        self.holder = holder
        self.until = 0
        self.working = False


class History:
    """One run's observations."""

    def __init__(self, world: World, disk: SimDisk, ttl: int) -> None:
        self._world = world
        self._disk = disk
        self._ttl = ttl
        self.accepted: list[tuple[c.Command[Any], Any]] = []
        """Commands that were acknowledged, with the answer."""
        self.present: set[str] = set()
        """Jobs that somebody was told exist."""
        self._beliefs: dict[str, list[Belief]] = {}
        self._gap_at = 0

    def engine_gap(self, at: int) -> None:
        """The engine was away until now, by its own clock: no holder could renew."""
        self._gap_at = at

    # -- answers ------------------------------------------------------------------------------------------------

    def answered(self, command: c.Command[Any], reply: Any, error: Exception | None) -> None:
        """The engine has spoken: whether the message arrives or not, it must stand by it."""
        self._world.seen[type(command if error is None else error).__name__] += 1
        self._world.note(f"{_brief(command)} -> {reply if error is None else type(error).__name__}")
        if error is None:
            self.accepted.append((command, reply))
            if isinstance(command, c.Submit):
                self.present.update(reply.ids)
        elif isinstance(error, DuplicateJob):
            self.present.add(error.job_id)

    # -- what is published --------------------------------------------------------------------------------------

    def committed(self, events: list[e.Event]) -> None:
        """Durable events, as the feed hands them out."""
        for event in events:
            self._world.seen[type(event).__name__] += 1
            if isinstance(event, e.LeaseExpired):
                self._expired(event)

    def _expired(self, event: e.LeaseExpired) -> None:
        early = self._gap_at <= event.at < self._gap_at + self._ttl
        promised = [b for b in self._beliefs.get(event.job_id, []) if b.lease_id == event.lease_id]
        betrayed = [belief.holder for belief in promised if self._believes(belief)]
        if (not early and not betrayed) or self._revoked(event.lease_id):
            return
        if early:
            away = event.at - self._gap_at
            raise Violation(f"lease {event.lease_id} expired {away} ms after the engine itself was away")
        raise Violation(f"lease {event.lease_id} expired while {betrayed[0]} had been promised more time")

    def _revoked(self, *leases: str) -> bool:
        """Whether the engine ended one over its holder's head: preempted, timed out, or its worker thrown out."""
        return any(self._revoked_one(lease_id) for lease_id in leases)

    def _revoked_one(self, lease_id: str) -> bool:
        worker = None
        for row in self._disk.told:
            events = e.decode(row.events)
            for event in events:
                match event:
                    case e.LeaseGranted() if event.lease_id == lease_id:
                        worker = event.worker_id
                    case e.LeaseReleased() | e.AttemptFailed() if event.lease_id == lease_id:
                        return True
                    case e.LeaseExpired() if event.lease_id == lease_id:
                        return any(_throws_out(other, worker) for other in events)
        return False

    # -- what holders believe -----------------------------------------------------------------------------------

    def begins(self, belief: Belief) -> None:
        """A holder's start was acknowledged: from now on it works."""
        for other in self._beliefs.setdefault(belief.job_id, []):
            apart = other is not belief and other.lease_id != belief.lease_id
            if apart and self._believes(other) and not self._revoked(other.lease_id, belief.lease_id):
                raise Violation(f"{other.holder} and {belief.holder} both work on job {belief.job_id}")
        belief.working = True
        self._beliefs[belief.job_id].append(belief)

    def _believes(self, belief: Belief) -> bool:
        return belief.working and self._world.now < belief.until


def _throws_out(event: e.Event, worker: str | None) -> bool:
    if isinstance(event, e.WorkerChanged):
        return event.id == worker and event.status == "failed"
    return isinstance(event, e.WorkerRemoved) and event.id == worker


def _brief(command: c.Command[Any]) -> str:
    if isinstance(command, c.Submit):
        return f"Submit({', '.join(new.id for new in command.jobs)})"
    if isinstance(command, c.RegisterWorker):
        return f"RegisterWorker({command.spec.id})"
    return repr(command)[:160]
