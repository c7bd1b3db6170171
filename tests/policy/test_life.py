"""The life of a policy in a real engine: modes, force, fallbacks by kind, what is kept of failures and decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.policy import (
    FileWatcher,
    HostSettings,
    InvalidPolicy,
    PolicyEngine,
    PolicyForbidden,
    PolicySettings,
    Replayer,
    history_of,
    template,
)
from headgate.policy.decisions import unpack
from headgate.policy.deltas import JobAdded
from headgate.testing import worker
from tests.policy.office import Office

GOOD = "-- policy: good\n-- version: 2.1.0\nfunction schedule(c) return platform.schedule(c) end\n"
BAD_AT_TIMES = "-- policy: bad-at-times\nfunction schedule(c) return { action = c.queue[3].id } end\n"
QUICK: dict[str, Any] = {"contexts": 20, "jobs": 200}
Opened = Callable[..., Office]
# For tests that are about something else than time, on a machine that may be busy.
PATIENT = HostSettings(limit_ms=5_000, platform_limit_ms=5_000)


@pytest.fixture
def opened() -> Iterator[Opened]:
    made: list[Office] = []

    def open_office(settings: PolicySettings | None = None, **core: Any) -> Office:
        made.append(Office(settings, **core))
        return made[-1]

    yield open_office
    for office in made:
        office.stop()


def with_host(**host: Any) -> PolicySettings:
    return PolicySettings(host=HostSettings(**host))


# -- modes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["home", "lab"])
def test_home_and_lab_take_policies_and_watch_files(opened: Opened, mode: str, tmp_path: Path) -> None:
    office = opened(with_host(mode=mode))
    assert office.policies.mode == mode
    path = tmp_path / "policy.lua"
    path.write_text(GOOD)
    watcher = FileWatcher(office.policies, path, lambda _: None)
    first = watcher.start()
    watcher.stop()
    assert office.policies.library.pointer().active == first.version
    assert office.policies.library.get("good").version == "2.1.0"


def test_in_platform_mode_nothing_is_taken_not_even_by_force_and_not_to_watch(opened: Opened) -> None:
    office = opened(with_host(mode="platform"))
    for options in ({}, {"force": True}, {"mode": "shadow"}):
        with pytest.raises(PolicyForbidden, match="in platform mode only the platform policy decides"):
            office.policies.deploy("lua", GOOD, **options)
    assert office.policies.library.versions() == []


def test_a_policy_that_was_active_is_not_run_once_the_mode_is_platform(opened: Opened) -> None:
    office = opened()
    version = office.policies.deploy("lua", GOOD, **QUICK)
    strict = PolicyEngine(with_host(mode="platform"))
    try:
        strict.observe([], office.writer.state)
        strict.propose(office.writer.state, office.clock.now())
        status = strict.status()
        assert (status.active, status.deciding) == (version.id, "platform")
        assert status.problem == "user policies are not allowed in platform mode"
    finally:
        strict.stop()


def test_without_walls_a_home_still_runs_policies_and_its_status_says_what_is_missing(opened: Opened) -> None:
    office = opened(with_host(lockdown=False))
    office.do(c.RegisterWorker(worker("w")))
    office.policies.deploy("lua", GOOD, **QUICK)
    office.submit("a")
    assert office.cycle() == [("a", "w")]
    status = office.policies.status()
    assert status.host is not None
    assert [text.partition(":")[0] for text in status.host.degraded] == ["landlock", "rlimits", "seccomp"]
    assert status.deciding.startswith("good@")


# -- deploying ------------------------------------------------------------------------------------------------------


def test_force_skips_semantics_and_speed_but_never_syntax(opened: Opened) -> None:
    office = opened()
    with pytest.raises(InvalidPolicy) as refused:
        office.policies.deploy("lua", BAD_AT_TIMES, **QUICK)
    assert refused.value.field == "source"
    assert office.policies.library.versions() == []
    assert office.policies.deploy("lua", BAD_AT_TIMES, force=True).name == "bad-at-times"
    with pytest.raises(InvalidPolicy):
        office.policies.deploy("lua", "function schedule(", force=True)


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("p.txt", GOOD, "ends in neither .lua nor .yaml"),
        ("gone.lua", None, "cannot be read"),
        ("p.lua", "-- version: soon\nfunction schedule() end", "'soon' is not a semantic version"),
        ("p.lua", b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_with_its_reason(
    opened: Opened, tmp_path: Path, name: str, source: str | bytes | None, says: str
) -> None:
    path = tmp_path / name
    if source is not None:
        path.write_bytes(source if isinstance(source, bytes) else source.encode())
    with pytest.raises(InvalidPolicy, match=says):
        opened().policies.deploy_file(path, force=True)


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_a_yaml_file_is_deployed_like_a_lua_file(opened: Opened, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"p.{ending}"
    path.write_text(template("determinism-first").source)
    version = opened().policies.deploy_file(path, **QUICK)
    assert (version.name, version.language, version.note) == ("determinism-first", "yaml", f"file p.{ending}")
    assert "function schedule" in version.lua


# -- failures -------------------------------------------------------------------------------------------------------

FAILING = {
    "error": "error('boo')",
    "invalid": "return { action = 'fly' }",
    "timeout": "while true do end",
    "memory": "local t = {} for i = 1, 1e9 do t[i] = { i } end",
}


@pytest.mark.parametrize("kind", FAILING)
def test_every_way_to_fail_is_answered_by_the_platform_policy_and_counted_by_its_kind(
    opened: Opened, kind: str
) -> None:
    limits = {"limit_ms": 20} if kind == "timeout" else {"limit_ms": 5_000, "heap_bytes": 16 << 20}
    office = opened(with_host(**limits))
    office.do(c.RegisterWorker(worker("w")))
    version = office.policies.deploy("lua", f"function schedule(c) {FAILING[kind]} end", force=True)
    office.submit("a")
    assert office.cycle() == [("a", "w")]
    status = office.policies.status()
    assert status.failures[kind] >= 1
    assert set(status.failures) <= {kind, "busy"}
    assert status.by_platform == status.decisions
    failed = office.policies.decisions()[0]
    assert (failed.failure, failed.decided_by, failed.attempted) == (kind, "platform", version.id)


def test_a_trip_keeps_source_version_context_error_and_traceback(opened: Opened) -> None:
    office = opened(PolicySettings(host=PATIENT, trip_after=2))
    inner = "local function inner(c) return c.queue[1].x.y end"
    source = f"-- policy: fragile\n{inner}\nfunction schedule(c)\n  local x = inner(c)\n  return x\nend"
    version = office.policies.deploy("lua", source, force=True)
    for name in ("a", "b"):
        office.submit(name)
        office.cycle()
    tripped = office.policies.status().tripped
    assert tripped is not None
    assert (tripped.version, tripped.kind) == (version.id, "failed (error)")
    assert "policy:2" in tripped.message
    assert "policy:4" in tripped.traceback
    assert office.policies.library.get(tripped.version).source == source
    history = history_of(office.policies.decisions(), tripped.decision)
    told = [delta.id for record in history for delta in unpack(record.frame) if isinstance(delta, JobAdded)]
    assert told == ["a", "b"]
    with Replayer(version.lua) as replayer:
        again = replayer.ask(history)
    assert (again.failure, again.message) == ("error", tripped.message)
    moves = office.policies.library.pointer().moves
    assert (moves[-1].who, moves[-1].why) == ("headgate", "tripped: failed (error)")
    assert office.policies.enable(who="ada").tripped is None


# -- decisions ------------------------------------------------------------------------------------------------------


def test_a_decision_keeps_version_runtime_inputs_answer_path_and_time(opened: Opened) -> None:
    office = opened(PolicySettings(host=PATIENT, budget_ms=5_000))
    office.do(c.RegisterWorker(worker("w", slots=2)))
    version = office.policies.deploy("yaml", template("determinism-first").source, **QUICK)
    office.submit("plain")
    office.submit("seeded", seed=3)
    assert office.cycle() == [("seeded", "w"), ("plain", "w")]
    decision = office.policies.decisions()[0]
    assert (decision.decided_by, decision.version) == ("user", version.id)
    assert decision.runtime.startswith("LuaJIT")
    assert {delta.id for delta in unpack(decision.frame) if isinstance(delta, JobAdded)} == {"plain", "seeded"}
    assert decision.question.now_ms == decision.at == office.clock.now()
    assert [action.get("job_id") for action in decision.actions[:2]] == ["seeded", "plain"]
    assert decision.trace[:2] == ["rule prioritize-seeded-jobs", "rule fallback"]
    assert 0 < decision.took_us <= decision.waited_us
    assert (decision.refused, decision.failure) == ([], "")
