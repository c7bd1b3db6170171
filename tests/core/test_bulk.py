"""Many jobs in one command: the quick way in leads to the same state, the same rows and the same refusals."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.decide import decide
from headgate.core.errors import DuplicateJob, InvalidJob
from headgate.core.job import JobSpec
from headgate.core.verify import verify
from headgate.engine.rows import job_rows
from headgate.testing import Harness, difference, job, snapshot, worker

KINDS = st.fixed_dictionaries(
    {
        "priority": st.sampled_from(["high", "normal"]),
        "tenant": st.sampled_from(["a", "b"]),
        "rank": st.sampled_from([0, 0, 0, 1, -1]),
        "units": st.sampled_from([1, 2]),
    }
)
OWN = st.fixed_dictionaries({}, optional={"not_before": st.integers(0, 9), "deadline": st.integers(50, 60)})
NOTHING: st.SearchStrategy[dict[str, Any]] = st.just({})
DRAWN = st.lists(st.tuples(KINDS, NOTHING), max_size=12) | st.lists(st.tuples(KINDS, OWN), max_size=12)
"""Half of the time only jobs that wait for nothing but room: those go the quick way."""


def specs_of(drawn: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[JobSpec]:
    return [job("some", **kind, **own) for kind, own in drawn]


def began_with_some_that_came_back(specs: list[JobSpec]) -> Harness:
    """Jobs wait already, and some of them in the heap of those that were granted once."""
    h = Harness()
    h.join(worker("w", slots=2))
    for number, spec in enumerate(specs):
        decide(h.state, c.Submit((c.NewJob(f"early-{number}", spec),)), h.now)
    for lease_id in (h.state.jobs[job_id].lease for job_id in h.cycle()):
        assert lease_id is not None
        decide(h.state, c.Release(lease_id.id, lease_id.token), h.now)
    return h


@given(st.lists(KINDS, max_size=4), DRAWN)
def test_a_bulk_leads_to_the_same_state_as_its_jobs_one_by_one(
    early: list[dict[str, Any]], drawn: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    specs = specs_of(drawn)
    jobs = [c.NewJob(f"job-{number}", spec) for number, spec in enumerate(specs)]
    before = specs_of([(kind, {}) for kind in early])
    bulk, singly = began_with_some_that_came_back(before), began_with_some_that_came_back(before)
    together = decide(bulk.state, c.Submit(tuple(jobs)), bulk.now)
    one_by_one = [decide(singly.state, c.Submit((new,)), singly.now) for new in jobs]
    assert together.events == [event for outcome in one_by_one for event in outcome.events]
    assert together.reply.ids == tuple(new.id for new in jobs)
    assert snapshot(bulk.state) == snapshot(singly.state), difference(snapshot(bulk.state), snapshot(singly.state))
    assert [new.id for new in bulk.state.ready] == [new.id for new in singly.state.ready]
    verify(bulk.state)


@given(DRAWN)
def test_a_row_holds_the_specification_as_it_is_encoded_alone(
    drawn: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    specs = specs_of(drawn)
    submit = c.Submit(tuple(c.NewJob(f"job-{number}", spec) for number, spec in enumerate(specs)))
    events = [event for event in decide(Harness().state, submit, 0).events if isinstance(event, e.JobSubmitted)]
    assert [row.spec for row in job_rows(events)] == [msgspec.msgpack.encode(spec) for spec in specs]


def test_the_journal_keeps_a_submission_without_its_specification() -> None:
    submit = c.Submit((c.NewJob("first", job("a")), c.NewJob("second", job("b", dependencies=["first"]))))
    events = decide(Harness().state, submit, 7).events
    assert e.decode(e.journal(events)) == [
        e.JobSubmitted(7, "first", 1, None, events[0].state),  # type: ignore[attr-defined]
        e.JobSubmitted(7, "second", 2, None, events[1].state, ("first",), 1),  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize("again", ["known", "twice"])
def test_a_bulk_with_one_id_twice_is_refused_whole(again: str) -> None:
    h = Harness()
    decide(h.state, c.Submit((c.NewJob("known", job("a")),)), h.now)
    before = snapshot(h.state)
    with pytest.raises(DuplicateJob, match=again):
        decide(h.state, c.Submit(tuple(c.NewJob(name, job("a")) for name in ("new", "twice", again, "last"))), h.now)
    assert snapshot(h.state) == before


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 257, "\ud800"])
def test_a_bulk_with_an_id_that_cannot_be_kept_is_refused_whole(name: str) -> None:
    h = Harness()
    before = snapshot(h.state)
    with pytest.raises(InvalidJob, match="id"):
        decide(h.state, c.Submit((c.NewJob("fine", job("a")), c.NewJob(name, job("a")))), h.now)
    assert snapshot(h.state) == before
