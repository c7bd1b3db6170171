from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.core import commands as c
from headgate.policy.debugging.adapter import Open
from headgate.policy.debugging.subject import of_context
from headgate.policy.deciding import PolicySettings
from headgate.policy.verdict import HostSettings
from headgate.testing import worker
from tests.policy.debugging.dap_client import Client
from tests.policy.office import Office

LUA = """-- policy: chooser
local asked = 0

local function pick(context, job)
  asked = asked + 1

  -- nothing stands on the lines above
  local worker = context.helpers.find_worker_least_loaded(job)
  if not worker then return nil end
  return { action = "dispatch", job_id = job.id, worker_id = worker.id, reason = "draw " .. math.random(1000) }
end

function schedule(context)
  for number, job in ipairs(context.queue) do
    local answer = pick(context, job)
    if answer then return answer end
  end
  log.info("asked", asked)
  return { action = "wait", reason = "nothing fits" }
end
"""
YAML = """scheduler:
  name: rules
  rules:
    - name: high-first
      condition:
        job.class: high
      action:
        dispatch:
          worker_selection: least-loaded
      priority: 10

    - name: the-rest
      condition:
        job.class: { in: [normal, low] }
      action:
        dispatch:
          worker_selection: first
"""
Connect = Callable[[Open], Client]


@pytest.fixture
def office() -> Iterator[Office]:
    """An engine that has made some recorded decisions by a policy that draws random numbers."""
    made = Office(PolicySettings(host=HostSettings(limit_ms=5_000, platform_limit_ms=5_000)))
    for name in ("w1", "w2"):
        made.do(c.RegisterWorker(worker(name)))
    yield made
    made.stop()


@pytest.fixture
def decided(office: Office) -> str:
    """The id of a decision that is not a key frame."""
    office.policies.deploy("lua", LUA, force=True)
    office.submit("a", "b", "c")
    office.cycle()
    office.advance(1_000)
    office.finish("a")
    office.submit("d", "e")
    office.cycle()
    last = office.policies.decisions()[-1]
    assert not last.keyframe
    assert last.decided_by == "user"
    return last.id


@pytest.fixture
def recorded(office: Office, decided: str) -> Open:
    """What a launch request opens: that decision."""
    return lambda _: of_context(office.policies.context(decided))


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[Client] = []

    def connected(open_subject: Open) -> Client:
        made.append(Client(open_subject))
        return made[-1]

    yield connected
    for client in made:
        client.leave()


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The recorded policy as a file of the user's."""
    path = tmp_path / "mine.lua"
    path.write_text(LUA)
    return path
