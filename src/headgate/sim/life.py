"""One job's life in the simulated world: when it ran, how much of its work is left, what fate has in store."""

from __future__ import annotations

import random

from headgate.sim.workloads.model import SimJob


class Life:
    """What the world keeps of a job until it ends."""

    __slots__ = ("attempts", "first_start", "job", "left", "preemptions", "ran", "running", "started_at", "submitted",
                 "worker")  # fmt: skip

    def __init__(self, job: SimJob, at: int) -> None:
        self.job = job
        self.submitted = at
        self.first_start: int | None = None
        self.started_at = 0
        self.running = False
        self.ran = 0
        self.left = job.run
        self.attempts = 0
        self.preemptions = 0
        self.worker = ""

    def start(self, at: int, worker: str) -> None:
        """The work begins, for the first time or again."""
        if self.first_start is None:
            self.first_start = at
        self.started_at = at
        self.running = True
        self.attempts += 1
        self.worker = worker

    def stop(self, at: int) -> None:
        """The work stops, whatever the reason."""
        if self.running:
            self.ran += at - self.started_at
            self.running = False
            self.left -= at - self.started_at

    def start_over(self) -> None:
        """What was done is lost."""
        self.left = self.job.run


def fate(life: Life, seed: int, chance_of_failure: float) -> tuple[int, bool]:
    """How long this attempt lasts, and whether it fails then.

    Chance depends on the seed, the job and the attempt alone, so the same job meets the same fate under any policy.
    """
    left = max(0, life.left)
    if life.attempts - life.preemptions <= life.job.fails:
        return left, True
    if chance_of_failure:
        chance = random.Random(f"{seed}/{life.job.id}/{life.attempts}")
        if chance.random() < chance_of_failure:
            return int(left * chance.random()), True
    return left, False
