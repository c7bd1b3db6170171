"""Hot reload of policy files."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.policy.deciding import PolicySettings
from headgate.policy.errors import InvalidPolicy, PolicyForbidden
from headgate.policy.template_library import template, templates
from headgate.policy.verdict import HostSettings
from headgate.policy.watching import FileWatcher, Reloaded
from tests.policy.office import Office

GOOD = "-- policy: watched\n-- version: 1.0.0\nfunction schedule(c) return platform.schedule(c) end\n"
WITHIN = 60


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    yield made
    made.stop()


def test_a_changed_file_becomes_a_version_and_a_broken_one_leaves_the_last_good(office: Office, tmp_path: Path) -> None:
    path = tmp_path / "policy.lua"
    path.write_text(GOOD)
    reports: queue.Queue[Reloaded] = queue.Queue()
    watcher = FileWatcher(office.policies, path, reports.put)
    first = watcher.start()
    try:
        assert reports.get(timeout=WITHIN) == first
        assert first.version is not None
        path.write_text("function schedule(")
        broken = reports.get(timeout=WITHIN)
        assert (broken.version, "1:" in broken.problem) == (None, True)
        assert office.policies.library.pointer().active == first.version
        path.write_text(GOOD.replace("1.0.0", "1.1.0"))
        second = reports.get(timeout=WITHIN)
        assert second.version not in (None, first.version)
        assert office.policies.library.pointer().active == second.version
    finally:
        watcher.stop()


@pytest.mark.parametrize("source", [None, "function schedule(", "function schedule(c) return 7 end"])
def test_a_file_that_is_broken_at_the_start_is_refused(office: Office, tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "policy.lua"
    if source is not None:
        path.write_text(source)
    reports: list[Reloaded] = []
    with pytest.raises(InvalidPolicy):
        FileWatcher(office.policies, path, reports.append).start()
    assert reports == []


def test_a_file_that_is_too_slow_at_the_start_is_reported_and_followed(office: Office, tmp_path: Path) -> None:
    path = tmp_path / "policy.lua"
    path.write_text(
        "function schedule(c) if #c.queue > 5000 then while true do end end return platform.schedule(c) end"
    )
    reports: queue.Queue[Reloaded] = queue.Queue()
    watcher = FileWatcher(office.policies, path, reports.put)
    assert watcher.start().version is None
    try:
        assert "with 10000 jobs" in reports.get(timeout=WITHIN).problem
        path.write_text(GOOD)
        assert reports.get(timeout=WITHIN).version is not None
    finally:
        watcher.stop()


def test_platform_mode_watches_nothing(tmp_path: Path) -> None:
    office = Office(PolicySettings(host=HostSettings(mode="platform")))
    try:
        with pytest.raises(PolicyForbidden):
            FileWatcher(office.policies, tmp_path / "p.lua", lambda _: None).start()
    finally:
        office.stop()


def test_there_are_at_least_ten_templates_each_with_its_purpose() -> None:
    found = templates()
    names = {each.name for each in found}
    assert names >= {
        *("platform-clone", "determinism-first", "batch-to-most-free-vram", "interactive-first", "fair-share"),
        *("shortest-job-first", "backfill", "night-shift", "model-affinity", "cost-saver"),
    }
    for each in found:
        assert each.purpose.endswith(".")
        assert len(each.purpose) > 20
    with pytest.raises(LookupError):
        template("nobody")


@pytest.mark.parametrize("name", [each.name for each in templates()])
def test_every_template_passes_the_checks_of_a_deploy(office: Office, name: str) -> None:
    found = template(name)
    checked = office.policies.validate(found.language, found.source, contexts=60, jobs=1_000)
    assert checked.ok, [str(note) for note in checked.diagnostics]
