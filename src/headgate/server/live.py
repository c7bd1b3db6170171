"""The live feed: a snapshot, then numbered deltas at most so often; the last ones can be had again.

Deltas say what a thing is now, not what happened to it: a job that changes ten times between two deltas is told once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headgate import views
from headgate.core import events as e
from headgate.engine.aio import AsyncEngine
from headgate.engine.questions import FindJobs, GetStatus, answer
from headgate.engine.rows import JOB_FIELD
from headgate.policy.managing import Policies
from headgate.ports import JobQuery
from headgate.server.settings import ServerSettings
from headgate.server.simulations import TOPIC, Simulations
from headgate.server.tokens import Caller
from headgate.wire.stream import Deltas, Snapshot

TOPICS = ("status", "jobs", "leases", "workers", "pools", "policy")
MOST_JOBS = 500
"""Jobs told of in one delta or snapshot; more are counted."""
LINGER = 60.0
"""Seconds for which deltas go on being made after the last listener left."""
_LEASES = (e.LeaseGranted, e.LeaseRenewed, e.JobStarted, e.PreemptionAsked)
_LEASES_OVER = (e.JobCompleted, e.AttemptFailed, e.LeaseExpired, e.LeaseReleased)
_WORKERS = (e.WorkerChanged, e.WorkerClaimed, e.WorkerEvicted, e.WorkerRemoved, e.WorkerSeen)
Topics = dict[str, Any]


class Frame(msgspec.Struct, frozen=True):
    """One delta; what belongs to a tenant carries its name, so that it can be left out for others."""

    number: int
    topics: Topics


class Listener:
    """One connection: frames wait for it here."""

    def __init__(self, caller: Caller, topics: tuple[str, ...]) -> None:
        self.caller = caller
        self.topics = topics
        self.frames: deque[Frame | None] = deque()
        """None: too much was missed, a snapshot is needed."""
        self.changed = asyncio.Event()

    def push(self, frame: Frame | None) -> None:
        """Add a frame; a listener that does not keep up begins anew with a snapshot."""
        if frame is None or len(self.frames) > 40:
            self.frames.clear()
            frame = None
        self.frames.append(frame)
        self.changed.set()

    def shown(self, topics: Topics) -> Topics:
        """The part of a frame that this listener may and wants to see."""
        own = {name: part for name, part in topics.items() if name in self.topics}
        tenant = self.caller.tenant
        if tenant is None:
            return own
        for name in ("jobs", "leases"):
            if name in own:
                own[name] = {**own[name], "set": [item for item in own[name]["set"] if item.get("tenant") == tenant]}
        return own


class Live:
    """Makes frames while somebody listens."""

    def __init__(
        self, engine: AsyncEngine, settings: ServerSettings, policies: Policies | None, simulations: Simulations
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._policies = policies
        self._simulations = simulations
        self._listeners: set[Listener] = set()
        self._kept: deque[Frame] = deque(maxlen=settings.live_kept)
        self._jobs: dict[str, None] = {}
        self._leases: dict[str, bool] = {}
        self._workers: dict[str, None] = {}
        self._pools: dict[str, None] = {}
        self._dirty = False
        self._policy_moved = False
        self._following = False
        self._maker: asyncio.Task[None] | None = None
        self._last_status: bytes = b""
        self.number = 0
        self.handlers: dict[type[e.Event], Callable[[Any], None]] = {}

    # -- what the engine tells ----------------------------------------------------------------------------------

    def restart(self) -> None:
        """The state is another one: whoever listens begins anew."""
        self.number = max(self.number + 1, self._engine.writer.state.epoch << 32)
        self._forget()
        for listener in self._listeners:
            listener.push(None)

    def settle(self, events: Sequence[e.Event]) -> None:
        """Note what changed, while anybody listens; frames are made by time, not by commits."""
        if self._following:
            for event in events:
                self._see(event)

    def _see(self, event: e.Event) -> None:
        self._dirty = True
        field = JOB_FIELD.get(type(event))
        if field is not None:
            self._jobs[getattr(event, field)] = None
        if isinstance(event, _LEASES):
            self._leases[event.lease_id] = True
        elif isinstance(event, _LEASES_OVER):
            self._leases[event.lease_id] = False
        elif isinstance(event, _WORKERS):
            self._workers[event.id] = None
        elif isinstance(event, e.WorkerRegistered | e.WorkerWanted):
            self._workers[event.spec.id] = None
        elif isinstance(event, e.PoolReported):
            self._pools[event.report.id] = None
        elif isinstance(event, e.PoolChanged | e.PoolRemoved):
            self._pools[event.id] = None
        elif isinstance(event, e.DocumentSet):
            self._policy_moved = True
        if isinstance(event, e.LeaseGranted | e.JobCompleted | e.AttemptFailed | e.LeaseExpired | e.LeaseReleased):
            lease = self._engine.writer.state.leases.get(event.lease_id)
            if lease is not None and lease.worker_id is not None:
                self._workers[lease.worker_id] = None

    # -- listening ----------------------------------------------------------------------------------------------

    def listen(self, caller: Caller, topics: tuple[str, ...], after: int | None) -> tuple[Listener, bool]:
        """A new listener, and whether it needs a snapshot: not if all frames after `after` are still here."""
        listener = Listener(caller, topics)
        known = self._following and after is not None and self._has_all_after(after)
        if known and after is not None:
            for frame in self._kept:
                if frame.number > after:
                    listener.push(frame)
        self._listeners.add(listener)
        if not self._following:
            self._following = True
            self._forget()
        if self._maker is None or self._maker.done():
            self._maker = asyncio.create_task(self._make_frames(), name="headgate-live")
        return listener, not known

    def leave(self, listener: Listener) -> None:
        """A listener is gone."""
        self._listeners.discard(listener)

    async def stop(self) -> None:
        """Make no more frames."""
        if self._maker is not None:
            self._maker.cancel()

    def _has_all_after(self, after: int) -> bool:
        if after == self.number:
            return True
        return bool(self._kept) and self._kept[0].number <= after + 1 <= self.number

    def _forget(self) -> None:
        self._kept.clear()
        self._jobs.clear()
        self._leases.clear()
        self._workers.clear()
        self._pools.clear()
        self._dirty = self._policy_moved = False

    # -- frames -------------------------------------------------------------------------------------------------

    async def _make_frames(self) -> None:
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while True:
            await asyncio.sleep(self._settings.live_interval)
            if self._listeners:
                heard = loop.time()
            elif loop.time() - heard > LINGER:
                self._following = False
                self.number += 1  # what happens now is told to nobody: whoever comes back begins with a snapshot
                self._forget()
                return
            self.make_frame()

    def make_frame(self) -> None:
        """Put what changed into the next frame, if anything did."""
        topics = self._changes() | self._simulations.news(self._watched(), asyncio.get_running_loop().time())
        if not topics:
            return
        self.number += 1
        frame = Frame(self.number, topics)
        self._kept.append(frame)
        for listener in self._listeners:
            listener.push(frame)

    def _watched(self) -> set[str]:
        """Simulations are told of only while somebody watches them: what nobody sees is not played."""
        return {topic for listener in self._listeners for topic in listener.topics if topic.startswith(TOPIC)}

    def _changes(self) -> Topics:
        topics: Topics = {}
        status = self.status()
        encoded = msgspec.json.encode({**status, "now": 0})
        if encoded != self._last_status:
            self._last_status = encoded
            topics["status"] = status
        if not self._dirty:
            return topics
        state = self._engine.writer.state
        if self._jobs:
            topics["jobs"] = self._changed_jobs()
        if self._leases:
            held = {id_: state.leases.get(id_) for id_ in self._leases}
            topics["leases"] = {
                "set": [self._lease(lease) for lease in held.values() if lease is not None],
                "gone": [id_ for id_, lease in held.items() if lease is None],
            }
        if self._workers:
            topics["workers"] = {
                "set": [views.worker_out(state.workers[id_]) for id_ in self._workers if id_ in state.workers],
                "gone": [id_ for id_ in self._workers if id_ not in state.workers],
            }
        if self._pools:
            known = [id_ for id_ in self._pools if id_ in state.pools]
            topics["pools"] = {
                "set": [views.pool_out(state.pools[id_], views.workers_of(state, id_)) for id_ in known],
                "gone": [id_ for id_ in self._pools if id_ not in state.pools],
            }
        if self._policy_moved:
            topics["policy"] = self.policy()
        self._clear_changes()
        return {name: msgspec.to_builtins(part) for name, part in topics.items()}

    def _clear_changes(self) -> None:
        for changed in (self._jobs, self._leases, self._workers, self._pools):
            changed.clear()
        self._dirty = self._policy_moved = False

    def _changed_jobs(self) -> Topics:
        state = self._engine.writer.state
        ids = list(self._jobs)
        told = [state.jobs[id_] for id_ in ids[-MOST_JOBS:] if id_ in state.jobs]
        return {"set": [brief(views.live_job_out(job)) for job in told], "more": max(0, len(ids) - MOST_JOBS)}

    def _lease(self, lease: Any) -> Topics:
        shown: Topics = msgspec.to_builtins(views.lease_out(lease))
        del shown["token"]  # whoever watches must not be able to speak for the holder
        return {**shown, "tenant": lease.tenant}

    def status(self) -> Topics:
        """Figures of the moment."""
        writer = self._engine.writer
        found = answer(GetStatus(), writer.state, writer.store, self._engine.clock.now())
        capacity = msgspec.to_builtins(views.capacity_out(found))
        return {
            "now": found.now / 1000,
            "ready": writer.stopped is None,
            "capacity": capacity,
            "jobs": found.states,
            "ready_by_class": found.ready_by_class,
            "workers": found.workers,
        }

    def policy(self) -> Topics:
        """Who decides."""
        if self._policies is None:
            return {"deciding": "built-in"}
        status = self._policies.status()
        tripped = None if status.tripped is None else msgspec.to_builtins(status.tripped)
        return {"active": status.active, "shadow": status.shadow, "deciding": status.deciding, "tripped": tripped}

    def snapshot(self, listener: Listener) -> Snapshot:
        """Where things stand, for one listener."""
        writer = self._engine.writer
        state = writer.state
        tenants = () if listener.caller.tenant is None else (listener.caller.tenant,)
        topics: Topics = {"status": self.status(), "policy": self.policy()}
        if "jobs" in listener.topics:
            query = FindJobs(JobQuery(tenants=tenants, limit=MOST_JOBS))
            jobs = answer(query, state, writer.store, self._engine.clock.now())
            topics["jobs"] = {"set": [brief(views.job_out(info)) for info in jobs]}
        topics["leases"] = {"set": [self._lease(lease) for lease in state.leases.values()], "gone": []}
        topics["workers"] = {"set": [views.worker_out(worker) for worker in state.workers.values()], "gone": []}
        topics |= self._simulations.snapshot(listener.topics)
        pools = [views.pool_out(pool, views.workers_of(state, id_)) for id_, pool in state.pools.items()]
        topics["pools"] = {"set": pools, "gone": []}
        return Snapshot(self.number, listener.shown({name: msgspec.to_builtins(part) for name, part in topics.items()}))

    def deltas(self, listener: Listener, frame: Frame) -> Deltas:
        """A frame as one listener sees it."""
        return Deltas(frame.number, listener.shown(frame.topics))


def brief(job: Any) -> Topics:
    """A job without what may be large."""
    shown: Topics = msgspec.json.decode(msgspec.json.encode(job))
    for large in ("payload", "attributes", "result"):
        shown.pop(large, None)
    return {**shown, "tenant": job.tenant}
