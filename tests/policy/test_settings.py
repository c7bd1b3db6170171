"""What the engine's settings mean to policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.policy import HostSettings, PolicySettings
from headgate.testing import worker
from tests.policy.office import Office

SHOW = """-- policy: show
function schedule(context)
  local said = {}
  for name in pairs(context.config) do said[#said + 1] = name end
  return { action = "wait", reason = table.concat(said, " ") .. ": " .. context.config.preempting_classes[1] }
end"""


@pytest.fixture
def opened() -> Iterator[Callable[..., Office]]:
    made: list[Office] = []

    def open_office(**core: Any) -> Office:
        made.append(Office(PolicySettings(host=HostSettings(limit_ms=5_000)), **core))
        return made[-1]

    yield open_office
    for office in made:
        office.stop()


def running_low(office: Office) -> None:
    office.do(c.RegisterWorker(worker("w")))
    office.submit("low", priority="low")
    assert office.cycle() == [("low", "w")]


def asked_to_go(office: Office, name: str) -> bool:
    lease = office.writer.state.jobs[name].lease
    return lease is not None and lease.fence_at is not None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"preempting_classes": (0, 1)}, True),
        ({"preempting_classes": (0,)}, False),
        ({"preempting_classes": (0, 1), "preemptible_classes": (3,)}, False),
        ({"preempting_classes": (0, 1), "preemption": False}, False),
    ],
)
def test_the_platform_policy_preempts_for_and_among_the_classes_of_the_settings(
    opened: Callable[..., Office], settings: dict[str, Any], expected: bool
) -> None:
    office = opened(**settings)
    running_low(office)
    office.submit("normal")
    office.cycle()
    assert asked_to_go(office, "low") is expected
    assert office.policies.status().refusals == 0


def test_a_policy_reads_the_settings_in_words(opened: Callable[..., Office]) -> None:
    office = opened()
    office.policies.deploy("lua", SHOW, force=True)
    office.do(c.RegisterWorker(worker("w")))
    office.submit("a")
    office.cycle()
    said = office.policies.decisions()[-1].actions[0]["reason"]
    assert said == "lease_ttl_ms preemptible_classes preempting_classes preemption stagger_ms total_units: high"
