"""What `verify` refuses although the books agree with each other."""

from __future__ import annotations

import msgspec
import pytest

from headgate.core import commands as c
from headgate.core.decide import decide
from headgate.core.errors import InvariantBroken
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.core.verify import verify
from headgate.testing import job, worker


def running() -> State:
    state = State(Settings(fixed_busy=0))
    decide(state, c.RegisterWorker(worker("w", cpu=4)), 0)
    decide(state, c.Submit((c.NewJob("a", job("a", units=3, resources={"cpu": 1})),)), 0)
    decide(state, c.Schedule(tuple(FirstFit().propose(state, 0))), 0)
    verify(state)
    return state


def test_a_ledger_in_debt_is_refused_even_where_the_sums_agree() -> None:
    state = running()
    (lease,) = state.leases.values()
    sunk = msgspec.structs.replace(lease, units=-3)
    state.leases[lease.id] = sunk
    state.jobs["a"].lease = sunk
    state.leased_units = state.pools["default"].leased_units = state.tenants["default"].leased_units = -3
    with pytest.raises(InvariantBroken) as broken:
        verify(state)
    debts = [problem for problem in broken.value.details["problems"] if "less than nothing" in problem]
    assert [debt.partition(" books")[0] for debt in debts] == [
        "the cluster",
        f"lease {lease.id}",
        "pool default",
        "tenant default",
    ]


def test_a_dependency_that_is_counted_wrongly_is_found() -> None:
    state = running()
    decide(state, c.Submit((c.NewJob("b", job("b", dependencies=["a"])),)), 0)
    verify(state)
    state.graph._named.clear()
    with pytest.raises(InvariantBroken, match="live jobs depend on 1 jobs, 0 are counted"):
        verify(state)


def test_a_load_that_is_taken_to_be_fresher_than_its_samples_is_found() -> None:
    state = State()
    decide(state, c.SampleLoad("host", {"cpu": 0.1}), 0)
    verify(state)
    state.load.fresh_until = -1
    with pytest.raises(InvariantBroken, match=r"fresh until -1; silent at 0: \[\]"):
        verify(state)
