"""`headgate.policy` as the Python interface of policies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate.policy
from headgate.core import commands as c
from headgate.policy import Policies, PolicyNotFound, platform_source, platform_version, platform_versions
from headgate.policy.decisions import dump, load
from headgate.policy.runtime import read_versions
from headgate.testing import worker
from tests.policy.office import Office


def test_every_public_name_is_there_and_comes_from_its_module() -> None:
    assert headgate.policy.__all__ == sorted(headgate.policy.__all__)
    assert set(headgate.policy.__all__) == set(headgate.policy._MODULE_OF)
    for name in headgate.policy.__all__:
        assert getattr(headgate.policy, name) is not None
    assert set(headgate.policy.__all__) <= set(dir(headgate.policy))
    with pytest.raises(AttributeError, match="no attribute 'nobody'"):
        headgate.policy.nobody  # noqa: B018 - asking is the point


def test_importing_it_loads_neither_lua_nor_any_of_its_modules() -> None:
    look = "import sys, headgate.policy; print([m for m in sys.modules if 'lupa' in m or 'headgate.policy.' in m])"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_whole_life_of_a_policy_has_a_call() -> None:
    calls = "validate deploy deploy_file rollback use_platform end_shadow enable status decisions replay try_draft"
    for call in calls.split():
        assert callable(getattr(Policies, call)), call


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    yield made
    made.stop()


def test_versions_of_the_platform_policy_stand_side_by_side(tmp_path: Path) -> None:
    assert platform_versions()[platform_version()] == platform_source() == platform_source(platform_version())
    (tmp_path / "platform.lua").write_text("-- version: 2.0.0\nnew")
    (tmp_path / "platform-1.9.0.lua").write_text("-- version: 1.9.0\nold")
    (tmp_path / "sandbox.lua").write_text("no policy")
    assert read_versions(tmp_path.iterdir()) == {"2.0.0": "-- version: 2.0.0\nnew", "1.9.0": "-- version: 1.9.0\nold"}


def test_a_decision_of_an_earlier_platform_policy_is_replayed_with_that_one(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.do(c.RegisterWorker(worker("w")))
    office.submit("a")
    office.cycle()
    decision = office.policies.decisions()[0]
    assert (decision.decided_by, decision.version) == ("platform", platform_version())
    assert office.policies.replay(decision.id).same
    earlier = load(dump(decision).replace(platform_version().encode(), b"0.9.0"))
    monkeypatch.setattr(office.policies, "history", lambda _: [earlier])
    with pytest.raises(PolicyNotFound, match=r"platform policy 0\.9\.0 is not part of this Headgate"):
        office.policies.replay(earlier.id)
    hold = "-- version: 0.9.0\nfunction schedule(c) return { action = 'wait', reason = 'as it was' } end"
    known = {**platform_versions(), "0.9.0": hold}
    monkeypatch.setattr("headgate.policy.runtime.platform_versions", lambda: known)
    monkeypatch.setattr("headgate.policy.managing.platform_versions", lambda: known)
    assert office.policies.replay(earlier.id).replayed == [{"action": "wait", "reason": "as it was"}]
