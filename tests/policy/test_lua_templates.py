from __future__ import annotations

import re

import pytest

from headgate.policy import answers
from headgate.policy.deltas import TenantSet
from headgate.policy.runtime import platform_source
from headgate.policy.sources import prepare
from headgate.policy.template_library import Template, templates
from tests.policy.world import NOW, QUESTION, job, runtime_with, state, worker

TEMPLATES = {template.name: template for template in templates() if template.language == "lua"}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=lambda template: template.name)
def test_a_template_is_a_real_policy_with_its_purpose_in_one_sentence(template: Template) -> None:
    assert template.purpose.endswith(".")
    runtime = runtime_with()
    runtime.load(template.source)
    answer = runtime.ask(QUESTION)
    assert answer.error is None, answer.error
    known = answers.Known()
    known.note(state())
    assert any(isinstance(action, answers.Dispatch) for action in answers.check(answer.actions, known))


def test_the_clone_is_the_platform_policy() -> None:
    assert TEMPLATES["platform-clone"].source.endswith(platform_source())


@pytest.mark.parametrize("template", templates(), ids=lambda template: template.name)
def test_a_template_that_is_deployed_keeps_its_name_and_version(template: Template) -> None:
    prepared = prepare(template.language, template.source)
    assert (prepared.name, prepared.version) == (template.name, "1.0.0")


def test_shortest_job_first_takes_the_short_one_and_the_one_that_waited_too_long() -> None:
    short, long = job(2, estimated_duration_ms=10, queued_at=NOW), job(1, estimated_duration_ms=99, queued_at=NOW)
    old = job(3, estimated_duration_ms=999, queued_at=NOW - 31 * 60_000)
    runtime = runtime_with(worker("w-1"), long, short)
    runtime.load(TEMPLATES["shortest-job-first"].source)
    assert runtime.ask(QUESTION).actions[0]["job_id"] == "job-2"
    runtime.apply([old])
    assert runtime.ask(QUESTION).actions[0]["job_id"] == "job-3"


def test_fair_share_looks_at_the_share_before_the_class() -> None:
    jobs = [job(1, 1, tenant="served"), job(2, 3, tenant="hungry"), job(3, 0, tenant="served")]
    tenants = [TenantSet("served", share=0.9), TenantSet("hungry", share=0.1)]
    runtime = runtime_with(*tenants, worker("w-1", slots=3, slots_free=3), *jobs)
    runtime.load(TEMPLATES["fair-share"].source)
    order = [a.get("job_id") for a in runtime.ask(QUESTION).actions[:3]]
    assert order == ["job-3", "job-2", "job-1"]


def test_backfill_fills_the_gap_with_the_largest_that_fits_until_patience_ends() -> None:
    jobs = [job(1, resources={"cpu": 9}, queued_at=NOW), job(2, resources={"cpu": 1}), job(3, resources={"cpu": 3})]
    runtime = runtime_with(worker("w-1", slots=2, slots_free=2, resources_free={"cpu": 4}), *jobs)
    runtime.load(TEMPLATES["backfill"].source)
    assert [a.get("job_id") for a in runtime.ask(QUESTION).actions[:2]] == ["job-3", "job-2"]


def test_the_two_kinds_of_easy_backfilling_differ_in_the_order_of_those_behind_alone() -> None:
    """A template is one whole file to start from, so what two share is written twice; here it is kept the same."""
    functions = [
        dict(re.findall(r"^(?:local )?function (\w+)(.*?)^end$", TEMPLATES[name].source, re.MULTILINE | re.DOTALL))
        for name in ("easy-backfill", "easy-sjbf")
    ]
    assert functions[0].keys() == functions[1].keys() == {"start", "look_ahead", "behind", "backfill", "schedule"}
    assert [name for name in functions[0] if functions[0][name] != functions[1][name]] == ["behind"]
