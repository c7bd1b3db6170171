"""What goes wrong, and how often. Each run draws its own mix, so that some are nearly calm and some are terrible."""

from __future__ import annotations

import random

import msgspec

from headgate.engine.failpoints import FAILPOINTS


class Faults(msgspec.Struct):
    """Shares of all cases, unless said otherwise."""

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    """Messages that take seconds instead of milliseconds, or longer than a lease lives."""
    failpoints: dict[str, float] = {}
    """The engine dies there."""
    dies_replying: float = 0.0
    dies_between: float = 0.0
    freezes: float = 0.0
    clock_jumps: float = 0.0
    """Restarts after which the engine's clock stands hours away."""
    open_fails: float = 0.0
    write_fails: float = 0.0
    seal_fails: float = 0.0
    seal_unknown: float = 0.0
    """Commits that are durable although the store reports a failure."""
    slow_commits: float = 0.0
    worker_dies: float = 0.0
    worker_freezes: float = 0.0
    meddling: float = 0.0
    """How often the operator interferes: drains, fails, removes, changes quotas, shows false loads."""


def draw(chance: random.Random) -> Faults:
    """The faults of one run."""

    def some(most: float, among: float = 0.6) -> float:
        return chance.random() * most if chance.random() < among else 0.0

    return Faults(
        lost=some(0.15),
        doubled=some(0.3, 0.7),
        late=some(0.1),
        failpoints={name: some(0.03, 0.4) for name in FAILPOINTS if name != "recover.after"}
        | {"recover.after": some(0.3, 0.3)},
        dies_replying=some(0.01, 0.4),
        dies_between=some(0.01, 0.5),
        freezes=some(0.02, 0.5),
        clock_jumps=some(0.9, 0.5),
        open_fails=some(0.3, 0.3),
        write_fails=some(0.05, 0.4),
        seal_fails=some(0.08, 0.6),
        seal_unknown=some(0.05, 0.4),
        slow_commits=some(0.3, 0.4),
        worker_dies=some(0.05),
        worker_freezes=some(0.1, 0.7),
        meddling=some(0.6),
    )
