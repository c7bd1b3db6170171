"""The mirror against a plain model of it: whatever the stream, queue and groups are what they should be."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from headgate.policy.deltas import Delta, JobAdded, JobChanged, JobRemoved, Reset, WorkerSet
from headgate.policy.runtime import Runtime
from tests.policy.world import QUESTION

LIST = """
function schedule(c)
  local out = {}
  for _, j in ipairs(c.queue) do out[#out + 1] = j.id end
  out[#out + 1] = "|"
  for i = #c.queue, 1, -1 do out[#out + 1] = c.queue[i].id end
  out[#out + 1] = "|"
  for _, g in ipairs(c.groups) do
    out[#out + 1] = g.class .. g.tenant .. g.units .. ":" .. g.count .. ":" .. g.head.id
    local n = 0
    for _, j in ipairs(g.jobs) do n = n + 1 if j.tenant ~= g.tenant then out[#out + 1] = "WRONG" end end
    if n ~= g.count then out[#out + 1] = "MISCOUNTED" end
  end
  for i = 1, #out do log.info(out[i]) end
  local j = c.queue[2]
  if not j then return { action = "wait" } end
  return { action = "dispatch", job_id = j.id, worker_id = "w" }
end"""
NAMES = ("high", "normal", "low", "background")

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "remove", "rank", "reset"]),
        st.integers(0, 11),
        st.integers(0, 3),
        st.integers(-1, 1),
        st.sampled_from(["a", "b"]),
    ),
    max_size=40,
)
Job = tuple[int, int, int, str]


def apply(model: dict[str, Job], step: tuple[str, int, int, int, str]) -> Delta:
    kind, number, class_index, rank, tenant = step
    name = f"j{number}"
    if kind == "add":
        model[name] = (class_index, -rank, number, tenant)
        return JobAdded(name, class_index, rank, number, tenant=tenant)
    if kind == "remove":
        model.pop(name, None)
        return JobRemoved(name)
    if kind == "reset":
        model.clear()
        return Reset()
    if name in model:
        old = model[name]
        model[name] = (class_index, -rank, old[2], tenant)
    return JobChanged(name, ["class_index", class_index, "rank", rank, "tenant", tenant])


def expected(model: dict[str, Job]) -> list[str]:
    order = sorted(model, key=lambda name: model[name][:3])
    groups: dict[tuple[int, str], list[str]] = {}
    for name in order:
        groups.setdefault((model[name][0], model[name][3]), []).append(name)
    heads = sorted(groups.items(), key=lambda item: model[item[1][0]][:3])
    shown = [f"{NAMES[c]}{tenant}1:{len(names)}:{names[0]}" for (c, tenant), names in heads]
    return [*order, "|", *reversed(order), "|", *shown]


@settings(deadline=None, max_examples=150)
@given(steps)
def test_the_queue_and_its_groups_follow_any_stream(stream: list[tuple[str, int, int, int, str]]) -> None:
    runtime = Runtime()
    model: dict[str, Job] = {}
    runtime.load(LIST)
    runtime.apply([WorkerSet("w", "p", "ready", slots=1, slots_free=1)])
    for step in stream:
        runtime.apply([apply(model, step)])
        answer = runtime.ask(QUESTION)
        assert answer.error is None, answer.error
        assert [text for _, text in answer.logs][: len(expected(model))] == expected(model)
