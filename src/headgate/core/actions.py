"""What a policy may propose, and why a proposal or a waiting job does not get its way.

The reasons here are the one typed answer to "why is it waiting?", shared by `check`, `explain` and every interface.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.core.quantities import Amount, plain

# -- actions ------------------------------------------------------------------------------------------------------


class Dispatch(msgspec.Struct, frozen=True, tag="dispatch", tag_field="action"):
    """Grant a job a lease on a worker; external jobs need none."""

    job_id: str
    worker_id: str | None = None
    reason: str = ""


class Wait(msgspec.Struct, frozen=True, tag="wait", tag_field="action"):
    """Start nothing more for now."""

    reason: str = ""
    retry_after: int | None = None


class Evict(msgspec.Struct, frozen=True, tag="evict", tag_field="action"):
    """Stop an idle worker to make room for another model."""

    worker_id: str
    reason: str = ""


class StartWorker(msgspec.Struct, frozen=True, tag="start_worker", tag_field="action"):
    """Have a pool start a worker for a model."""

    model_ref: str
    pool_id: str
    gpu_id: str | None = None
    reason: str = ""


class Preempt(msgspec.Struct, frozen=True, tag="preempt", tag_field="action"):
    """Stop the victims (ids of jobs) so that the job fits."""

    job_id: str
    victims: tuple[str, ...]
    reason: str = ""


Action = Dispatch | Wait | Evict | StartWorker | Preempt

# -- reasons ------------------------------------------------------------------------------------------------------


class Reason(msgspec.Struct, frozen=True, tag_field="code"):
    """Why something does not happen now."""

    def detail(self) -> str:
        """The reason in words."""
        raise NotImplementedError


class NotQueued(Reason, frozen=True, tag="not_queued"):
    state: str

    def detail(self) -> str:
        return f"the job is {self.state}"


class BlockedBy(Reason, frozen=True, tag="blocked_by"):
    jobs: tuple[str, ...]
    count: int

    def detail(self) -> str:
        more = f" and {self.count - len(self.jobs)} more" if self.count > len(self.jobs) else ""
        return f"waits for {', '.join(self.jobs)}{more}"


class NotBefore(Reason, frozen=True, tag="not_before"):
    at: int
    wait: int

    def detail(self) -> str:
        return f"may start in {self.wait / 1000:g} s at the earliest"


class BusyGate(Reason, frozen=True, tag="busy_gate"):
    rating: float
    because: tuple[str, ...]

    def detail(self) -> str:
        return f"busy rating {self.rating:.1f}: {'; '.join(self.because) or 'no units are usable'}"


class NoCapacity(Reason, frozen=True, tag="no_capacity"):
    needed: int
    free: int
    missing: int
    pool: str | None = None

    def detail(self) -> str:
        where = f" in pool {self.pool}" if self.pool else ""
        return f"needs {self.needed} units{where}, {self.free} are free, {self.missing} missing"


class NeverStarts(Reason, frozen=True, tag="never_starts"):
    """It takes more units than there are when nothing else runs: waiting does not help."""

    needed: int
    most: int

    def detail(self) -> str:
        return f"needs {self.needed} units and there are {self.most} in all: it can never start unless units are added"


class QuotaReached(Reason, frozen=True, tag="quota"):
    tenant: str
    quota: str
    limit: Amount
    used: Amount
    needed: Amount

    def detail(self) -> str:
        held, needed = plain(self.used), plain(self.needed)
        text = f"tenant {self.tenant} may hold {plain(self.limit)} {self.quota}, holds {held}, needs {needed}"
        return f"{text}: it can never start unless the quota is raised" if self.needed > self.limit else text


class Stagger(Reason, frozen=True, tag="stagger"):
    pool: str
    wait: int

    def detail(self) -> str:
        return f"pool {self.pool} starts nothing for another {self.wait / 1000:g} s"


class WorkerUnfit(Reason, frozen=True, tag="worker_unfit"):
    """One worker does not fit one job: the requirement that fails."""

    worker: str
    requirement: Literal[
        "status", "slots", "claim", "handler", "type", "pool", "label", "model", "resource", "unknown", "needed"
    ]
    needed: str = ""
    found: str = ""

    def detail(self) -> str:
        if self.requirement == "claim":
            return f"worker {self.worker}: it has no stream just now, and has not asked for work"
        return f"worker {self.worker}: {self.requirement} needs {self.needed or 'more'}, has {self.found or 'none'}"


class NoFittingWorker(Reason, frozen=True, tag="no_fitting_worker"):
    """No worker fits: the requirement that fails, and on how many workers; examples say more."""

    workers: int
    failing: dict[str, int]
    examples: tuple[WorkerUnfit, ...]

    def detail(self) -> str:
        if not self.workers:
            return "there are no workers"
        parts = ", ".join(f"{name} on {count}" for name, count in self.failing.items())
        return f"none of {self.workers} workers fits ({parts})"


class PolicyWaits(Reason, frozen=True, tag="policy_wait"):
    reason: str

    def detail(self) -> str:
        return f"the policy waits: {self.reason}" if self.reason else "the policy waits"


class MakingRoom(Reason, frozen=True, tag="making_room"):
    victims: tuple[str, ...]

    def detail(self) -> str:
        return f"room is being made by stopping {', '.join(self.victims)}"


class Behind(Reason, frozen=True, tag="behind"):
    """Nothing stands in the way but those ahead in the queue."""

    position: int

    def detail(self) -> str:
        return f"{self.position} jobs are ahead" if self.position else "next in line"


class BadAction(Reason, frozen=True, tag="bad_action"):
    """The proposal itself makes no sense."""

    problem: str

    def detail(self) -> str:
        return self.problem


AnyReason = (
    NotQueued
    | BlockedBy
    | NotBefore
    | BusyGate
    | NoCapacity
    | NeverStarts
    | QuotaReached
    | Stagger
    | WorkerUnfit
    | NoFittingWorker
    | PolicyWaits
    | MakingRoom
    | Behind
    | BadAction
)


class Refusal(msgspec.Struct, frozen=True):
    """An action that did not hold, and why."""

    action: Action
    reason: AnyReason
