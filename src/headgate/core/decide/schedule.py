"""Carrying out a plan: each action is checked, and what holds becomes events."""

from __future__ import annotations

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import AnyReason, Dispatch, Evict, Preempt, Refusal, StartWorker, Wait
from headgate.core.check import check_dispatch, check_evict, check_start_worker, wanted_worker_id
from headgate.core.cluster import WorkerSpec
from headgate.core.decide.turn import Turn
from headgate.core.lease import lease_id, token_of
from headgate.core.preemption import check_preempt


def carry_out(turn: Turn, command: c.Schedule) -> c.Scheduled:
    """What holds is done in the order given; what does not is refused with its reason."""
    refused: list[Refusal] = []
    granted: list[str] = []
    for action in command.actions:
        if isinstance(action, Dispatch):
            reason = check_dispatch(turn.state, action, turn.now)
            if reason is None:
                granted.append(_grant(turn, action))
        else:
            reason = _check(turn, action)
            if reason is None:
                _do(turn, action)
        if reason is not None:
            refused.append(Refusal(action, reason))
    return c.Scheduled(tuple(granted), tuple(refused))


Rare = Evict | StartWorker | Preempt | Wait


def _check(turn: Turn, action: Rare) -> AnyReason | None:
    match action:
        case Evict():
            return check_evict(turn.state, action)
        case StartWorker():
            return check_start_worker(turn.state, action)
        case Preempt():
            return check_preempt(turn.state, action, turn.now)
        case Wait():
            return None


def _do(turn: Turn, action: Rare) -> None:
    match action:
        case Evict():
            turn.emit(e.WorkerEvicted(turn.now, action.worker_id, action.reason))
        case StartWorker():
            turn.emit(e.WorkerWanted(turn.now, _wanted(action), action.reason))
        case Preempt():
            _ask_victims(turn, action)
        case Wait():
            turn.emit(e.PolicyWaited(turn.now, action.reason, action.retry_after))


def _grant(turn: Turn, action: Dispatch) -> str:
    state = turn.state
    number = state.tokens + 1
    granted = lease_id(state.epoch, number)
    expires_at = turn.now + state.settings.lease_ttl
    attempt = state.jobs[action.job_id].attempt + 1
    token = token_of(state.epoch, number)
    turn.emit(
        e.LeaseGranted(turn.now, action.job_id, granted, token, action.worker_id, expires_at, attempt, action.reason)
    )
    return granted


def _wanted(action: StartWorker) -> WorkerSpec:
    gpus = (action.gpu_id,) if action.gpu_id is not None else ()
    return WorkerSpec(wanted_worker_id(action), action.pool_id, model_ref=action.model_ref, gpu_ids=gpus)


def _ask_victims(turn: Turn, action: Preempt) -> None:
    fence_at = turn.now + turn.state.settings.preemption_grace
    for victim in action.victims:
        lease = turn.state.jobs[victim].lease
        if lease is not None:
            turn.emit(e.PreemptionAsked(turn.now, lease.id, victim, action.job_id, fence_at))
