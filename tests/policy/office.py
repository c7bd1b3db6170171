"""An engine whose cycles are decided by policy: memory store, manual clock, real policy host."""

from __future__ import annotations

from typing import Any, TypeVar

from headgate.bootstrap.engine import Desk
from headgate.core import commands as c
from headgate.core.settings import Settings
from headgate.engine.questions import Question, answer
from headgate.engine.writer import Writer
from headgate.policy.deciding import PolicyEngine, PolicySettings
from headgate.policy.managing import Policies
from headgate.stores.memory import MemoryStore
from headgate.testing import ManualClock, SeededChance, job

R = TypeVar("R")


class Office:
    """A writer and its policies, driven by hand."""

    def __init__(
        self, settings: PolicySettings | None = None, *, kind: type[PolicyEngine] = PolicyEngine,
        store: MemoryStore | None = None, at: int = 1_700_000_000_000, **core: Any,
    ) -> None:  # fmt: skip
        self.clock = ManualClock(at)
        self.deciding = kind(settings)
        store = store or MemoryStore()
        self.writer = Writer(store, self.deciding, SeededChance(1), Settings(fixed_busy=0, **core))
        self.writer.open(self.clock.now())
        self.policies = Policies(Desk(self), self.deciding, self.clock.now)  # type: ignore[arg-type]  # what it asks of

    def do(self, command: c.Command[R]) -> R:
        """Carry out a command and commit; no cycle is run."""
        reply = self.writer.accept(command, self.clock.now(), _told)
        self.writer.flush()
        return reply

    def ask(self, question: Question[R]) -> R:
        return answer(question, self.writer.state, self.writer.store, self.clock.now())

    def wait_end(self, job_id: str, within: float) -> bool:
        raise NotImplementedError

    def submit(self, *names: str, **fields: Any) -> None:
        self.do(c.Submit(tuple(c.NewJob(name, job(name, **fields)) for name in names)))

    def cycle(self) -> list[tuple[str, str | None]]:
        """Run a cycle; who went where, in the order granted."""
        before = set(self.writer.state.leases)
        self.writer.cycle(self.clock.now())
        self.writer.flush()
        fresh = [lease for lease_id, lease in self.writer.state.leases.items() if lease_id not in before]
        return [(lease.job_id, lease.worker_id) for lease in fresh]

    def finish(self, *names: str) -> None:
        for name in names:
            lease = self.writer.state.jobs[name].lease
            assert lease is not None
            self.do(c.Start(lease.id, lease.token))
            self.do(c.Complete(lease.id, lease.token))

    def advance(self, milliseconds: int) -> None:
        """Let time pass in seconds, with signs of life from every worker."""
        for _ in range(0, milliseconds, 1_000):
            self.clock.advance(1_000)
            for name in self.writer.state.workers:
                self.do(c.WorkerBeat(name))
            beats = tuple((lease.id, lease.token) for lease in self.writer.state.leases.values())
            self.do(c.Heartbeats(beats))
            self.writer.tick(self.clock.now())
            self.writer.flush()

    def stop(self) -> None:
        self.deciding.stop()
        self.writer.close()


def _told(error: Exception | None) -> None:
    if error is not None:
        raise error
