"""For tests, ours and yours: a manual clock, seeded ids and chance, builders, and a harness around the core.

Nothing here is used by the product itself. The harness checks every invariant after each step, so a test that only
says who gets what also checks every ledger and index.
"""

from headgate.testing.build import external, gpu, job, model, pool, tenant, worker
from headgate.testing.edges import ManualClock, SeededChance, SeededIds
from headgate.testing.harness import Harness
from headgate.testing.snapshot import difference, replayable, snapshot
from headgate.testing.witness import Witness

__all__ = [
    "Harness",
    "ManualClock",
    "SeededChance",
    "SeededIds",
    "Witness",
    "difference",
    "external",
    "gpu",
    "job",
    "model",
    "pool",
    "replayable",
    "snapshot",
    "tenant",
    "worker",
]
