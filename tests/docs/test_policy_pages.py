"""The pages about policies say what the Lua runtime has: no name too many, none too few; every example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.core import Settings, State
from headgate.policy import PolicySettings, answers, templates
from headgate.policy.answers import MAX_ACTIONS
from headgate.policy.deltas import (
    ConfigSet,
    Gpu,
    JobAdded,
    MetricsSet,
    ModelSet,
    PoolSet,
    Question,
    RunningJob,
    TenantSet,
    WorkerSet,
)
from headgate.policy.mirroring import Mirroring
from headgate.policy.runtime import _PARTS, MAX_SOURCE_BYTES, Runtime, lua_source
from tests.policy.world import evaluate

ROOT = Path(__file__).parents[2]
LUA_PAGE = (ROOT / "docs/reference/lua-policy.md").read_text("utf-8")
LUA_SOURCES = "".join(lua_source(name).decode() for name in _PARTS)
WORDS = sorted(set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", LUA_SOURCES)))


def section(page: str, heading: str) -> str:
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def rows(page: str, heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its head."""
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def names(heading: str) -> list[str]:
    return [name for row in rows(LUA_PAGE, heading) for name in re.findall(r"`(\w+)", row[0])]


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    """A world in which no field of anything is missing."""
    running = RunningJob("r", 2, "t", 1, {"cpu": 1}, 5, 9, True, True)
    job: dict[str, Any] = {"name": "n", "type": "x", "priority": "high", "tenant": "t", "model_ref": "m", "seed": 1}
    job |= {"max_tokens": 1, "labels": {"a": "b"}, "attributes": {"a": 1}, "resources": {"cpu": 1}, "pool": "p"}
    job |= {"estimated_vram": 1, "estimated_duration_ms": 1, "requires": {"a": "b"}, "external": True, "handler": True}
    full = WorkerSet("w", "p", "ready", "m", 2, 1, 5, {"cpu": 1}, [0], {"a": "b"}, [running], 1, 1, ["x"])
    made = Runtime()
    made.apply(
        [
            ConfigSet(_told_settings()),
            MetricsSet(dict.fromkeys(("busy_rating", "usable_units", "leased_units", "avg_wait_ms"), 1)),
            MetricsSet({"jobs_completed_last_minute": 1}),
            ModelSet("m", 1, 1, ["alias"], {"a": 1}),
            TenantSet("t", 1, 1, {"vram": 1}, {"vram": 1}),
            PoolSet("p", "online", 0, [Gpu(0, "g", 3, 1, 2, 0.5)], ["m"], {"a": "b"}),
            full,
            JobAdded("j", 1, 0, 1, **job),
        ]
    )
    return made


def _told_settings() -> dict[str, Any]:
    told = Mirroring().everything(State(Settings()), 0)
    return next(delta.values for delta in told if isinstance(delta, ConfigSet))


RECORDS = {
    "Context": "c",
    "Jobs": "c.queue[1]",
    "Groups": "c.groups[1]",
    "Workers": "c.workers[1]",
    "Running jobs": "c.workers[1].current_jobs[1]",
    "Pools": "c.pools[1]",
    "GPUs": "c.pools[1].gpus[1]",
    "Tenants": "c.tenants[1]",
    "Models": "c.catalog.models.m",
    "Metrics": "c.metrics",
    "Config": "c.config",
    "Helpers": "c.helpers",
}


@pytest.mark.parametrize("heading", RECORDS)
def test_a_table_of_the_reference_names_exactly_what_the_runtime_has(runtime: Runtime, heading: str) -> None:
    walk = f"local found = {{}} for name in pairs({RECORDS[heading]}) do found[#found + 1] = name end"
    there = evaluate(runtime, "table.concat(found, ' ')", walk).split()
    assert sorted(names(heading)) == sorted(there)


def visible(runtime: Runtime, where: str) -> set[str]:
    """Which of all words of the runtime's own source are names there: none can be there without being among them."""
    listed = ", ".join(f'"{word}"' for word in WORDS)
    test = f"if {where}[w] ~= nil then found[#found + 1] = w end"
    walk = f"local found = {{}} for _, w in ipairs({{ {listed} }}) do {test} end"
    return set(evaluate(runtime, "table.concat(found, ' ')", walk).split())


def test_the_reference_names_exactly_the_globals_that_are_there(runtime: Runtime) -> None:
    own = {"schedule"}  # of the policy that asks
    assert visible(runtime, "_G") - own == set(names("Globals"))


@pytest.mark.parametrize("library", ["string", "table", "math"])
def test_the_reference_names_exactly_the_functions_of_a_library(runtime: Runtime, library: str) -> None:
    row = next(row for row in rows(LUA_PAGE, "Globals") if row[0] == f"`{library}`")
    assert visible(runtime, library) == set(row[1].strip("`").split())


@pytest.mark.parametrize("name", ["platform", "log", "metrics"])
def test_the_reference_names_every_call_of_a_global(runtime: Runtime, name: str) -> None:
    assert visible(runtime, name) == set(re.findall(rf"`{name}\.(\w+)", section(LUA_PAGE, "Globals")))


def test_the_reference_names_every_action_and_its_fields() -> None:
    kinds = {
        str(kind.__struct_config__.tag): set(kind.__struct_fields__) - {"reason"}
        for kind in (*answers.Action.__args__, answers._Batch)
    }
    shown = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in rows(LUA_PAGE, "Answers")}
    assert shown == kinds
    for field in answers.WorkerStart.__struct_fields__:
        assert field in section(LUA_PAGE, "Answers")


def test_the_limits_of_the_reference_are_those_of_the_code() -> None:
    settings, told = PolicySettings(), section(LUA_PAGE, "Limits")
    expected = {
        "limit_ms": f"{settings.host.limit_ms} ms",
        "load_limit_ms": f"{settings.host.load_limit_ms} ms",
        "heap_bytes": f"{settings.host.heap_bytes >> 20} MiB",
        "max_answers": str(settings.max_answers),
        "budget_ms": f"{settings.budget_ms} ms",
        "max_actions": str(settings.host.max_actions),
        "trip_after": str(settings.trip_after),
        "starve_after": f"{settings.starve_after // 1000} s",
        "longest_hold": f"{settings.longest_hold // 3_600_000} h",
    }
    for name, value in expected.items():
        assert f"{value} (`{name}`)" in told, name
    assert (MAX_ACTIONS, MAX_SOURCE_BYTES) == (1024, 1 << 20)
    in_lua = {
        "LONGEST_TEXT": "20000, 6, 4096",
        "MOST_STEPS": "64, 512, 64, 256",
        "LONGEST_STRING": "1048576",
    }
    for name, values in in_lua.items():
        assert f"{name} = {values}" in LUA_SOURCES, name


LUA_EXAMPLES = re.findall(r"^```lua\n(.*?)^```", LUA_PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("source", LUA_EXAMPLES)
def test_an_example_of_the_reference_runs(runtime: Runtime, source: str) -> None:
    runtime.load(source)
    assert runtime.ask(Question(1)).error is None


def test_the_list_of_templates_is_the_list_of_templates() -> None:
    page = (ROOT / "docs/reference/templates.md").read_text("utf-8")
    shown = [[cell.replace("`", "") for cell in row] for row in rows(page, "All of them")]
    assert shown == [[each.name, each.language, each.purpose] for each in templates()]


HOW_TO = (ROOT / "docs/how-to/write-a-policy.md").read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def run(code: str, folder: Path) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guide_runs_from_top_to_bottom_and_prints_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "policy.lua").write_text(blocks(HOW_TO, "lua")[0])
    (tmp_path / "policy.yaml").write_text(blocks(HOW_TO, "yaml")[0])
    runs = re.findall(r"<!-- run -->\n```python\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL)
    assert len(runs) == len(blocks(HOW_TO, "python"))
    assert run("\n".join(runs), tmp_path) == "".join(blocks(HOW_TO, "text"))


def test_the_example_of_the_templates_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs/reference/templates.md").read_text("utf-8")
    shown = run("\n".join(blocks(page, "python")), tmp_path)
    assert shown.splitlines() == [f"{each.name} ({each.language}): {each.purpose}" for each in templates()]
