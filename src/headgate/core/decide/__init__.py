"""One entry: a command and a time go in; events and an answer come out, or a typed error and nothing has changed.

Every handler checks first and emits afterwards: once the first event is applied, nothing can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

from headgate.core import commands as c
from headgate.core.decide import cluster, jobs, leases, load, schedule, tick
from headgate.core.decide.turn import Turn
from headgate.core.events import Event
from headgate.core.state import State

R = TypeVar("R")
Chance = Callable[[], float]


class Outcome(msgspec.Struct, Generic[R], gc=False):
    """What a command led to."""

    events: list[Event]
    reply: R


def decide(state: State, command: c.Command[R], now: int, chance: Chance = lambda: 0.5) -> Outcome[R]:
    """Carry out a command at a time; `chance` returns numbers in 0..1 and is only asked where the domain says so."""
    turn = Turn(state, now, chance)
    reply = _HANDLERS[type(command)](turn, command)
    _note_time(state, now)
    return Outcome(turn.events, reply)


def decide_all(state: State, commands: Iterable[c.Command[Any]], now: int, chance: Chance) -> Outcome[list[Any]]:
    """Carry out commands in order, each for itself: the error of one stands in the place of its reply."""
    turn = Turn(state, now, chance)
    replies: list[Any] = []
    for command in commands:
        try:
            replies.append(_HANDLERS[type(command)](turn, command))
        except Exception as error:  # noqa: BLE001 - it is that caller's alone; what the others did stands
            replies.append(error)
    _note_time(state, now)
    return Outcome(turn.events, replies)


def _note_time(state: State, now: int) -> None:
    if not state.ticked_at <= now <= state.now:
        state.now = max(state.now, now)
        # What a command that lags behind let in has not been looked at by the ticks since.
        state.ticked_at = min(state.ticked_at, now)


_HANDLERS: Final[dict[type[c.Command[Any]], Callable[[Turn, Any], Any]]] = {
    c.Submit: jobs.submit,
    c.Cancel: jobs.cancel,
    c.Patch: jobs.patch,
    c.Schedule: schedule.carry_out,
    c.Start: leases.start,
    c.Heartbeat: leases.heartbeat,
    c.Heartbeats: leases.heartbeats,
    c.Progress: leases.progress,
    c.Complete: leases.complete,
    c.Fail: leases.fail,
    c.Release: leases.release,
    c.RegisterWorker: cluster.register_worker,
    c.WorkerBeat: cluster.worker_beat,
    c.Claim: cluster.claim,
    c.DrainWorker: cluster.drain_worker,
    c.UndrainWorker: cluster.undrain_worker,
    c.EvictWorker: cluster.evict_worker,
    c.FailWorker: cluster.fail_worker,
    c.RemoveWorker: cluster.remove_worker,
    c.ReportPool: cluster.report_pool,
    c.RemovePool: cluster.remove_pool,
    c.SetTenant: cluster.set_tenant,
    c.RemoveTenant: cluster.remove_tenant,
    c.SetModel: cluster.set_model,
    c.RemoveModel: cluster.remove_model,
    c.PutDocument: cluster.put_document,
    c.SampleLoad: load.sample,
    c.WithdrawLoad: load.withdraw,
    c.Tick: tick.tick,
    c.Forget: jobs.forget,
    c.Resume: tick.resume,
}
