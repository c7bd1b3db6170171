"""The live feed: a snapshot, then numbered deltas at most so often; the last ones can be had again.

Deltas say what a thing is now, not what happened to it: a job that changes ten times between two deltas is told once.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headgate import views
from headgate.core import events as e
from headgate.core.state import State
from headgate.engine.aio import AsyncEngine
from headgate.engine.questions import FindJobs, GetStatus, answer
from headgate.engine.rows import JOB_FIELD
from headgate.policy.managing import Policies
from headgate.ports import JobQuery
from headgate.server.logs import get_logger
from headgate.server.privacy import own_leases, policy_for
from headgate.server.settings import ServerSettings
from headgate.server.simulations import TOPIC, Simulations
from headgate.server.tokens import Caller
from headgate.wire.http import JobOut
from headgate.wire.stream import Deltas, Snapshot

TOPICS = ("status", "jobs", "leases", "workers", "pools", "policy")
MOST_JOBS = 500
"""Jobs told of in one delta or snapshot; more are counted."""
LINGER = 60.0
"""Seconds for which deltas go on being made after the last listener left."""
_LEASES = (e.LeaseGranted, e.LeaseRenewed, e.JobStarted, e.PreemptionAsked)
_LEASES_OVER = (e.JobCompleted, e.AttemptFailed, e.LeaseExpired, e.LeaseReleased)
_WORKERS = (e.WorkerChanged, e.WorkerClaimed, e.WorkerEvicted, e.WorkerRemoved, e.WorkerSeen)
_MORE_OF, _GONE_OF = "more_of", "gone_of"
"""Parts of a frame that say whose the others are; nobody is sent them."""
_NOTHING = msgspec.Raw(b"null")
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

    def shown(self, topics: Topics, state: State) -> Topics:
        """The part of a frame that this listener may and wants to see."""
        own = {name: part for name, part in topics.items() if name in self.topics}
        if self.caller.tenant is not None:
            own = {name: self._own_part(name, part, state) for name, part in own.items()}
        for name in ("jobs", "leases"):
            if name in own:
                own[name] = {key: part for key, part in own[name].items() if key not in (_MORE_OF, _GONE_OF)}
        return own

    def _own_part(self, name: str, part: Topics, state: State) -> Topics:
        """What a tenant sees of a topic."""
        caller, tenant = self.caller, self.caller.tenant
        if name == "policy":
            return policy_for(caller, part)
        if name == "workers":
            seen = [{**item, "leases": own_leases(caller, state, item.get("leases", []))} for item in part["set"]]
            return {**part, "set": seen}
        if name not in ("jobs", "leases"):
            return part
        found = {**part, "set": [item for item in part["set"] if item.get("tenant") == tenant]}
        if _MORE_OF in part:
            found["more"] = part[_MORE_OF].get(tenant, 0)
        if _GONE_OF in part:
            whose = zip(part["gone"], part[_GONE_OF], strict=True)
            found["gone"] = [id_ for id_, owner in whose if owner == tenant]
        return found


class Live:
    """Makes frames while somebody listens."""

    def __init__(
        self, engine: AsyncEngine, settings: ServerSettings, policies: Policies | None, simulations: Simulations
    ) -> None:
        self._engine = engine
        self._log: Any = get_logger("headgate.server")
        self._settings = settings
        self._policies = policies
        self._simulations = simulations
        self._listeners: set[Listener] = set()
        self._kept: deque[Frame] = deque(maxlen=settings.live_kept)
        self._jobs: dict[str, None] = {}
        self._leases: dict[str, str] = {}
        """Those that changed, with their tenant."""
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
        if isinstance(event, _LEASES + _LEASES_OVER):
            self._leases[event.lease_id] = self._tenant_of(event)
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

    def _tenant_of(self, event: Any) -> str:
        """Whose lease an event is about; of one that is forgotten already nobody but an operator is told."""
        state = self._engine.writer.state
        lease = state.leases.get(event.lease_id)
        if lease is not None:
            return lease.tenant
        job = state.jobs.get(getattr(event, "job_id", ""))
        return self._leases.get(event.lease_id, "") if job is None else job.kind.of.tenant

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
            try:
                self.make_frame()
            except Exception:  # noqa: BLE001 - said in the log; a feed that falls silent would look like a quiet day
                self._log.exception("bug", call="live_feed")
                self.restart()

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
                _GONE_OF: [self._leases[id_] for id_, lease in held.items() if lease is None],
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
        left_out = [state.jobs[id_].kind.of.tenant for id_ in ids[:-MOST_JOBS] if id_ in state.jobs]
        more = max(0, len(ids) - MOST_JOBS)
        return {"set": [brief(views.live_job_out(job)) for job in told], "more": more, _MORE_OF: Counter(left_out)}

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
        plain = {name: msgspec.to_builtins(part) for name, part in topics.items()}
        return Snapshot(self.number, listener.shown(plain, state))

    def deltas(self, listener: Listener, frame: Frame) -> Deltas:
        """A frame as one listener sees it."""
        return Deltas(frame.number, listener.shown(frame.topics, self._engine.writer.state))


def brief(job: JobOut) -> Topics:
    """A job without what may be large, and which memory lets go of when the job has ended."""
    small = msgspec.structs.replace(job, payload=_NOTHING, attributes=_NOTHING, result=_NOTHING)
    shown: Topics = msgspec.json.decode(msgspec.json.encode(small))
    for large in ("payload", "attributes", "result"):
        shown.pop(large, None)
    return {**shown, "tenant": job.tenant}
