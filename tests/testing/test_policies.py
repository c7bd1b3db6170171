"""Property tests for policy authors: bad policies are caught with the smallest context, good ones pass."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from headgate.policy import PolicyRefused, PolicySourceError, templates
from headgate.policy.answers import Known
from headgate.policy.deltas import JobAdded, RunningJob, WorkerSet
from headgate.policy.runtime import USER, Runtime
from headgate.policy.verdict import Verdict
from headgate.testing import (
    SAFETY,
    Invariant,
    Scene,
    Trial,
    always_decides_within_the_limit,
    check_policy,
    contexts,
    never_dispatches_a_job_twice,
    never_dispatches_to_a_busy_worker,
    never_exceeds_a_workers_free_resources,
    never_exceeds_free_units,
    respects_quotas,
    serves_a_high_class_before_a_lower_one_when_both_fit,
    waits_only_if_nothing_fits,
)
from headgate.testing.scenes import strategies

FIRST_TO_FIRST = """
function schedule(c)
  local job, worker = c.queue[1], c.workers[1]
  if job and worker then return { action = "dispatch", job_id = job.id, worker_id = worker.id } end
end"""
TWICE = """
function schedule(c)
  local job, worker = c.queue[1], c.workers[1]
  if not worker or not job then return nil end
  local once = { action = "dispatch", job_id = job.id, worker_id = worker.id }
  return { action = "batch", actions = { once, once } }
end"""
LAST_FIRST = """
function schedule(c)
  for i = #c.groups, 1, -1 do
    local job = c.groups[i].head
    local worker = c.helpers.find_worker(job)
    if worker and c.helpers.can_fit(job, worker) and c.helpers.check_quota(job) then
      return { action = "dispatch", job_id = job.id, worker_id = worker.id }
    end
  end
end"""
IN_ORDER = """
function schedule(c)
  for _, job in ipairs(c.queue) do
    local free = c.metrics.free_units >= job.units and c.helpers.check_quota(job)
    if free and job.external then return { action = "dispatch", job_id = job.id } end
    local worker = free and c.helpers.find_worker(job)
    if worker then return { action = "dispatch", job_id = job.id, worker_id = worker.id } end
  end
end"""
HANG_ON_A_SEED = """
function schedule(c)
  for _, job in ipairs(c.queue) do
    if job.seed == 42 then while true do end end
  end
end"""
LAZY = "function schedule(c) return { action = 'wait', reason = 'not today' } end"
BROKEN = "function schedule(c)\n  if #c.queue > 1 then return c.queue[9].id end\nend"

CAUGHT: dict[str, tuple[str, Invariant, str, list[str]]] = {
    "busy": (
        FIRST_TO_FIRST,
        never_dispatches_to_a_busy_worker,
        "job-1 (normal) to worker-1, which has no free slot",
        ["job-1: normal, 1 unit", "worker-1 in pool-1: busy, 0 of 1 slots free", "1. dispatch job-1 to worker-1"],
    ),
    "twice": (TWICE, never_dispatches_a_job_twice, "job-1 (normal) to worker-1, though it was given away before", []),
    "resources": (
        FIRST_TO_FIRST,
        never_exceeds_a_workers_free_resources,
        "job-1 (normal) to worker-1: it takes 1 cpu of 0 free",
        ["job-1: normal, 1 unit, resources {'cpu': 1}", "worker-1 in pool-1: ready, 1 of 1 slots free"],
    ),
    "units": (
        FIRST_TO_FIRST,
        never_exceeds_free_units,
        "job-1 (normal) to worker-1: it takes 1 units of 0 free",
        ["0 of 0 units free"],
    ),
    "quotas": (FIRST_TO_FIRST, respects_quotas, "allowed to default", ["default: quotas {"]),
    "limit": (HANG_ON_A_SEED, always_decides_within_the_limit, "no answer within 10 ms", ["seed 42"]),
    "class": (
        LAST_FIRST,
        serves_a_high_class_before_a_lower_one_when_both_fit,
        "job-1 (normal) to worker-1, while job-2 (high) fits on worker-1",
        [],
    ),
    "idle": (
        LAZY,
        waits_only_if_nothing_fits,
        "it waits, while job-1 (normal) fits on",
        ["1. wait because 'not today'"],
    ),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_a_bad_policy_is_caught_with_the_smallest_context(name: str) -> None:
    source, invariant, complaint, shown = CAUGHT[name]
    with pytest.raises(AssertionError) as caught:
        check_policy(source, invariant, limit_ms=10 if name == "limit" else 50)
    said = str(caught.value)
    sentence = invariant.__name__.replace("_", " ")
    assert said.startswith(f"the policy breaks {sentence!r}")
    assert complaint in said
    for part in shown:
        assert part in said
    assert "job-3" not in said
    assert "worker-2" not in said


def test_an_answer_that_is_none_is_caught_whatever_else_is_asked() -> None:
    with pytest.raises(AssertionError, match="always gives an answer that the engine accepts") as caught:
        check_policy(BROKEN)
    said = str(caught.value)
    assert "error: policy:2:" in said
    assert "  job-2: normal, 1 unit\nworkers: none" in said


def test_a_policy_that_keeps_to_everything_passes_everything() -> None:
    strict = (serves_a_high_class_before_a_lower_one_when_both_fit, waits_only_if_nothing_fits)
    check_policy(IN_ORDER, *SAFETY, *strict)


@pytest.mark.parametrize("template", templates(), ids=lambda template: template.name)
def test_the_platform_policy_and_every_template_are_safe(template: Any) -> None:
    check_policy(template.source, *SAFETY, language=template.language, examples=60, seed=7)


def test_invariants_of_ones_own_may_assert_yield_or_answer() -> None:
    def keeps_silent(trial: Trial) -> None:
        assert not trial.actions, f"{len(trial.actions)} actions"

    def never_names_a_worker(trial: Trial) -> Iterator[str]:
        yield from (str(step) for step in trial.dispatches())

    def waits(trial: Trial) -> bool:
        return trial.waited

    for invariant, words in ((keeps_silent, "1 actions"), (never_names_a_worker, "to worker-1"), (waits, "not hold")):
        with pytest.raises(AssertionError, match=words):
            check_policy(FIRST_TO_FIRST, invariant)


def test_the_same_seed_finds_the_same_context() -> None:
    said = []
    for _ in range(2):
        with pytest.raises(AssertionError) as caught:
            check_policy(FIRST_TO_FIRST, never_exceeds_free_units, seed=11)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_a_source_that_does_not_load_says_so_as_when_deployed() -> None:
    with pytest.raises(PolicyRefused):
        check_policy("function schedule(")
    with pytest.raises(PolicySourceError):
        check_policy("scheduler: 7", language="yaml")


def test_without_hypothesis_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "hypothesis":
            raise ModuleNotFoundError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for call in (strategies, lambda: check_policy(LAZY)):
        with pytest.raises(ImportError, match="pip install hypothesis"):
            call()


@hypothesis_settings(deadline=None, max_examples=50)
@given(contexts())
def test_the_ledger_and_the_lua_runtime_agree_on_what_fits(scene: Scene) -> None:
    """Two implementations of one rule: what the helpers let through, the ledger finds nothing against."""
    runtime = RUNTIME
    runtime.apply(scene.deltas())
    answer = runtime.ask(scene.question(), USER)
    assert answer.error is None
    verdict = Verdict(answer, [], "user", "v")
    trial = Trial(scene, verdict, 50)
    complaints = [text for invariant in (*SAFETY, waits_only_if_nothing_fits) for text in invariant(trial)]
    assert complaints == []
    known = Known()
    known.note(scene.deltas())
    assert known.running() == {job.id for worker in scene.workers for job in worker.current_jobs}


RUNTIME = Runtime()
RUNTIME.load(IN_ORDER)


def test_a_scene_is_what_the_engine_could_tell() -> None:
    job, busy = JobAdded("j", 1, 0, 1), WorkerSet("w", "p", "busy", slots_free=0)
    held = WorkerSet("v", "p", "busy", slots_free=0, current_jobs=[RunningJob("r", 2, "default", 3, {}, 0)])
    scene = Scene(jobs=(job,), workers=(busy, held), usable_units=10)
    assert (scene.leased_units, scene.free_units) == (3, 7)
    assert [type(delta).__name__ for delta in scene.deltas()] == [
        *("Reset", "ConfigSet", "WorkerSet", "WorkerSet", "JobAdded", "MetricsSet"),
    ]
