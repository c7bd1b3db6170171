"""The engine's own look at an answer: anything wrong refuses the whole of it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.policy.answers import Dispatch, InvalidAnswer, Known, Wait, check
from headgate.policy.deltas import JobRemoved, PoolRemoved, Reset, WorkerRemoved
from tests.policy.world import job, state


@pytest.fixture
def known() -> Known:
    known = Known()
    known.note([*state(), job(9, external=True)])
    return known


def test_a_batch_is_flattened(known: Known) -> None:
    one = {"action": "dispatch", "job_id": "job-1", "worker_id": "w-1", "reason": "why"}
    assert check([{"action": "batch", "actions": [one]}, {"action": "wait"}], known) == [
        Dispatch("job-1", "w-1", "why"),
        Wait(),
    ]


def test_only_an_external_job_needs_no_worker(known: Known) -> None:
    assert check([{"action": "dispatch", "job_id": "job-9"}], known) == [Dispatch("job-9")]
    with pytest.raises(InvalidAnswer, match="worker_id '' is not known"):
        check([{"action": "dispatch", "job_id": "job-1"}], known)


BAD: dict[str, dict[str, Any]] = {
    "job_id 'x' is not known": {"action": "dispatch", "job_id": "x", "worker_id": "w-1"},
    "evict_worker_id 'x' is not known": {"action": "evict", "evict_worker_id": "x"},
    "pool_id 'x' is not known": {"action": "start_worker", "start_worker": {"model_ref": "m", "pool_id": "x"}},
    "victims is empty": {"action": "preempt", "job_id": "job-2", "victims": []},
    "victims 'job-1' is not known": {"action": "preempt", "job_id": "job-2", "victims": ["job-1"]},
    "victims 'r-1' comes twice": {"action": "preempt", "job_id": "job-2", "victims": ["r-1", "r-1"]},
    "retry_after_ms has to be": {"action": "wait", "retry_after_ms": float("nan")},
    "Invalid value 'fly'": {"action": "fly"},
    "missing required field `worker_id`|Expected `str": {"action": "dispatch", "job_id": 7},
}


@pytest.mark.parametrize("problem", BAD)
def test_one_thing_wrong_refuses_the_whole_answer(known: Known, problem: str) -> None:
    with pytest.raises(InvalidAnswer, match=problem):
        check([{"action": "dispatch", "job_id": "job-1", "worker_id": "w-1"}, BAD[problem]], known)


def test_repeats_and_too_many_are_refused(known: Known) -> None:
    one = {"action": "dispatch", "job_id": "job-1", "worker_id": "w-1"}
    with pytest.raises(InvalidAnswer, match="comes twice"):
        check([one, one], known)
    with pytest.raises(InvalidAnswer, match="at most 1 "):
        check([{"action": "wait"}] * 2, known, limit=1)


def test_what_has_gone_is_not_known_any_more(known: Known) -> None:
    known.note([JobRemoved("job-1"), WorkerRemoved("w-1"), PoolRemoved("pool-2")])
    assert "job-1" not in known.jobs
    assert "w-1" not in known.workers
    assert "pool-2" not in known.pools
    known.note([Reset()])
    assert not known.jobs | known.external | known.pools
