"""A trace shows what ran and what changed, a profile where the time goes; of recorded and simulated decisions."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headgate.core.errors import InvalidInput
from headgate.policy.debugging.profiling import profile
from headgate.policy.debugging.subject import Subject, generated, of_context, of_file, of_state, read
from headgate.policy.debugging.tracing import Trace, readable, trace
from headgate.policy.decisions import KIND, Decision, load, read_history, timeless
from headgate.policy.errors import InvalidPolicy
from headgate.sim import Shape, cluster_for, generate
from headgate.sim.policies import source_of
from headgate.sim.recording import decision_of
from tests.policy.debugging.conftest import YAML
from tests.policy.office import Office


@pytest.fixture
def traced(office: Office, decided: str) -> Trace:
    return trace(of_context(office.policies.context(decided)))


# -- traces ---------------------------------------------------------------------------------------------------------


def test_a_trace_shows_lines_calls_and_what_changed_and_repeats_the_recorded_answer(traced: Trace) -> None:
    assert traced.same is True
    assert not traced.failure
    steps = [step for step in traced.steps if step.function == "pick"]
    assert [step.line for step in steps[:4]] == [5, 8, 9, 10]
    assert steps[0].arguments == {"context": "context", "job": "job c"}
    assert steps[0].changed == {"asked": "1"}
    assert steps[1].calls == ["find_worker_least_loaded(job c, nil)"]
    assert steps[1].changed["worker"].startswith('{id = "w1"')
    assert [step.function for step in traced.steps if step.arguments].count("schedule") == len(traced.actions)


def test_a_trace_is_readable(traced: Trace) -> None:
    text = "\n".join(readable(traced))
    assert "policy:8       local worker = context.helpers.find_worker_least_loaded(job)\n" in text
    assert "> pick: context = context, job = job c\n" in text
    assert "log info: asked 3\n" in text
    assert text.endswith("the same as recorded")


def test_a_draft_is_traced_on_the_same_context_and_may_answer_otherwise(
    office: Office, decided: str, tmp_path: Path
) -> None:
    path = tmp_path / "draft.lua"
    path.write_text('function schedule(c) return { action = "wait", reason = "of " .. #c.queue } end')
    found = trace(of_context(office.policies.context(decided)).with_policy(read(path), str(path)))
    assert found.same is False
    assert found.actions == [{"action": "wait", "reason": "of 3"}]


def test_an_error_is_in_the_trace_with_the_lines_before_it(tmp_path: Path) -> None:
    path = tmp_path / "broken.lua"
    path.write_text("function schedule(c)\n  local job = nil\n  return job.id\nend\n")
    found = trace(of_file(path))
    assert "attempt to index" in found.failure
    assert found.steps[-1].line == 3


def test_a_policy_that_does_not_end_is_cut_off_with_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "endless.lua"
    path.write_text("function schedule(c)\n  while true do\n    local n = 1\n  end\nend\n")
    found = trace(of_file(path), 1.0)
    assert "did not end" in found.failure
    assert len(found.steps) > 100


def test_rules_of_a_yaml_policy_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(YAML)
    found = trace(of_file(path, "sample:9"))
    assert {'rule "high-first"', 'rule "the-rest"'} <= {step.function for step in found.steps}
    assert {step.rule for step in found.steps} >= {"high-first", "the-rest"}


@pytest.mark.parametrize("where", ["", "other", "sample:x", "crowd:-1"])
def test_a_context_that_there_is_not_is_refused_by_name(where: str) -> None:
    with pytest.raises(InvalidPolicy, match="sample, sample:NUMBER or crowd:JOBS") as caught:
        generated(where)
    assert caught.value.field == "context"


# -- what is read ---------------------------------------------------------------------------------------------------


def test_a_replay_reads_no_more_of_the_log_than_from_its_key_frame_on(office: Office, decided: str) -> None:
    asked: list[tuple[str | None, int, int | None]] = []
    desk = office.policies._engine

    def read_log(kind: str, key: str | None = None, since: int = 0, until: int | None = None) -> list[bytes]:
        asked.append((key, since, until))
        return desk.records(kind, key, since, until)

    office.policies.use_platform()
    office.submit("f")
    office.cycle()  # another policy, so a key frame of its own
    office.advance(1_000)
    last = office.policies.decisions()[-1]
    office.submit("g")
    office.cycle()
    history = read_history(read_log, last.id)
    assert history[0].keyframe
    assert history[0].id == history[-1].key_id == last.id
    assert asked == [(last.id, 0, None), (None, int(last.id[:13]), last.at + 1)]
    assert [each.id for each in read_history(read_log, decided)] == [
        each.id for each in office.policies.decisions()[:2]
    ]


def test_records_from_before_key_frames_had_names_are_read_from_the_beginning(office: Office, decided: str) -> None:
    def old(kind: str, key: str | None = None, since: int = 0, until: int | None = None) -> list[bytes]:
        found = [load(body) for body in office.policies._engine.records(kind, key, since, until)]
        assert kind == KIND
        known = Decision.__struct_fields__.index("key_id")
        return [msgspec.msgpack.encode(msgspec.structs.astuple(each)[:known]) for each in found]

    assert [each.key_id for each in read_history(old, decided)] == ["", ""]


def test_what_a_time_budget_cut_short_is_asked_for_as_many_answers_again(office: Office, decided: str) -> None:
    last = office.policies.history(decided)[-1]
    assert timeless(last).max_answers == last.question.max_answers
    cut = msgspec.structs.replace(last, took_us=last.question.budget_ms * 1_000, actions=last.actions[:1])
    assert timeless(cut).max_answers == 1
    assert timeless(cut).budget_ms > 10**9


def test_an_unknown_decision_is_a_lookup_error(office: Office) -> None:
    with pytest.raises(LookupError, match="there is no decision 'x'"):
        office.policies.context("x")


# -- simulations ----------------------------------------------------------------------------------------------------


def simulated(policy: str, number: int) -> Subject:
    workload = generate("lublin", 1, Shape(jobs=60))
    deltas, question = decision_of(workload, policy, cluster_for(workload), number)
    return of_state(deltas, question, policy, source_of(policy))


def test_a_decision_of_a_simulation_is_lifted_out() -> None:
    found = trace(simulated("easy-backfill", 20))
    assert not found.failure
    assert any(step.function == "look_ahead" for step in found.steps)


def test_a_simulation_without_that_many_decisions_or_without_lua_says_so() -> None:
    with pytest.raises(InvalidInput, match="there is no number 9999"):
        simulated("fcfs", 9_999)
    workload = generate("lublin", 1, Shape(jobs=5))
    with pytest.raises(InvalidInput, match="not a Lua or YAML policy"):
        decision_of(workload, "native:fcfs", cluster_for(workload), 1)


# -- profiles -------------------------------------------------------------------------------------------------------


def busy(where: str) -> str:
    return f"local function {where}(c) local n = 0 for i = 1, 3e5 do n = (n + i * i) % 97 end return n end\n"


def test_a_profile_finds_the_function_that_takes_the_time(tmp_path: Path) -> None:
    path = tmp_path / "slow.lua"
    path.write_text(busy("hot") + 'function schedule(c)\n  local n = hot(c)\n  return { action = "wait" }\nend\n')
    found = profile(of_file(path), 300)
    assert found.decisions == 300
    assert found.samples > 5
    by_name = {row.name: row for row in found.functions}
    assert by_name["hot"].own > 0.5
    assert by_name["schedule"].total >= by_name["hot"].total
    assert sum(row.own + row.helpers for row in found.functions) == pytest.approx(1)


def test_a_profile_of_yaml_is_by_rule(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(YAML)
    found = profile(of_file(path, "crowd:2000"))
    assert {row.name for row in found.rules} & {"high-first", "the-rest"}


def test_a_policy_that_fails_has_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "broken.lua"
    path.write_text("function schedule(c) return c.nothing.id end")
    with pytest.raises(InvalidPolicy, match="fails here"):
        profile(of_file(path), 10)
