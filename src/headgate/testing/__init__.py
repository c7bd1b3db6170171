"""For tests, ours and yours: a manual clock, seeded ids and chance, builders, a harness around the core, and
property tests for policies.

Nothing here is used by the product itself. The harness checks every invariant after each step, so a test that only
says who gets what also checks every ledger and index.
"""

from headgate.testing.build import external, gpu, job, model, pool, tenant, worker
from headgate.testing.edges import ManualClock, SeededChance, SeededIds
from headgate.testing.harness import Harness
from headgate.testing.invariants import (
    SAFETY,
    always_decides_within_the_limit,
    never_dispatches_a_job_twice,
    never_dispatches_to_a_busy_worker,
    never_exceeds_a_workers_free_resources,
    never_exceeds_free_units,
    respects_quotas,
    serves_a_high_class_before_a_lower_one_when_both_fit,
    waits_only_if_nothing_fits,
)
from headgate.testing.ledger import Ledger
from headgate.testing.policies import Invariant, check_policy
from headgate.testing.scenes import Scene, contexts
from headgate.testing.snapshot import difference, replayable, snapshot
from headgate.testing.trial import Step, Trial
from headgate.testing.witness import Witness

__all__ = [
    "SAFETY",
    "Harness",
    "Invariant",
    "Ledger",
    "ManualClock",
    "Scene",
    "SeededChance",
    "SeededIds",
    "Step",
    "Trial",
    "Witness",
    "always_decides_within_the_limit",
    "check_policy",
    "contexts",
    "difference",
    "external",
    "gpu",
    "job",
    "model",
    "never_dispatches_a_job_twice",
    "never_dispatches_to_a_busy_worker",
    "never_exceeds_a_workers_free_resources",
    "never_exceeds_free_units",
    "pool",
    "replayable",
    "respects_quotas",
    "serves_a_high_class_before_a_lower_one_when_both_fit",
    "snapshot",
    "tenant",
    "waits_only_if_nothing_fits",
    "worker",
]
