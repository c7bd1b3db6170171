"""Work orders and what a pull scheduler expects around it: records and protocols, no behaviour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec

from headgate.core import commands as c
from headgate.core.conform import conform
from headgate.core.errors import InvalidInput
from headgate.core.events import Failure
from headgate.core.job_input import LIMITS, text, whole
from headgate.core.notify import Listener
from headgate.core.quantities import LARGEST
from headgate.core.state import State
from headgate.core.typed import MOST_RANK

R = TypeVar("R")


class PullConfig(msgspec.Struct, frozen=True):
    """How often to look, how far apart to start, whether priorities count, how many may wait (0: any number)."""

    poll_interval_ms: int = 1_000
    stagger_delay_ms: int = 5_000
    priority_enabled: bool = False
    max_queue_depth: int = 0

    def check(self) -> PullConfig:
        """Refuse what makes no sense, naming the field."""
        config = conform(self)
        if config.poll_interval_ms < 1:
            raise InvalidInput("must be at least 1", field="poll_interval_ms")
        for field in ("stagger_delay_ms", "max_queue_depth"):
            if getattr(config, field) < 0:
                raise InvalidInput("must not be negative", field=field)
        return config


class StateMachine(Protocol):
    """What a work order may bring along: it is told when the order is claimed, and may refuse by raising."""

    def claim(self, slot_id: str) -> object:
        """The work order has a slot."""
        ...


class WorkOrder(msgspec.Struct, frozen=True):
    """Something to do. A higher `priority` is more urgent, where priorities are enabled."""

    id: str
    data: Any = None
    priority: int = 0
    submitted_at: int | None = None
    """Milliseconds; set when it is enqueued, unless given."""
    state_machine: StateMachine | None = None

    def check(self) -> WorkOrder:
        """Refuse what could not wait in a queue, naming the field."""
        text(self.id, "id", LIMITS)
        whole(self.priority, "priority", -MOST_RANK, MOST_RANK)
        if self.submitted_at is not None:
            whole(self.submitted_at, "submitted_at", 0, LARGEST)
        return self


class Slot(Protocol):
    """A slot in somebody's hands."""

    @property
    def id(self) -> str:
        """The slot's name."""
        ...


class Slots(Protocol):
    """What the scheduler asks of a resource monitor."""

    def claim(self, job_id: str, work_order_id: str) -> Any:
        """A slot for a waiting job, or the core's reason why not."""
        ...

    def give_back(self, handle: Any) -> None:
        """The work never began."""
        ...

    def fail_slot(self, handle: Any, failure: Failure) -> None:
        """The work failed."""
        ...

    def renew_slot(self, handle: Any) -> bool:
        """The work goes on."""
        ...

    def get_health_report(self) -> Any:
        """Memory, CPU and slots."""
        ...

    def on(self, event: str, listener: Listener) -> None:
        """Listen."""
        ...

    def off(self, event: str, listener: Listener) -> None:
        """Listen no more."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Engine(Protocol):
    """What the scheduler asks of an engine: the same one that the monitor has."""

    def do(self, command: c.Command[R]) -> R:
        """Carry out a command."""
        ...

    def read(self, question: Callable[[State], R]) -> R:
        """Ask the state something."""
        ...


Handler = Callable[[WorkOrder, Any], Awaitable[None] | None]
Spawn = Callable[[Callable[[], None]], None]


class Stats(msgspec.Struct, frozen=True, rename="camel"):
    """One look at the scheduler; `last_claim_time` is 0 before the first claim."""

    queue_depth: int
    is_running: bool
    last_claim_time: int
    resource_health: Any
