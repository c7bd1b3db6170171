"""Every template runs, every example of the reference compiles, every code and word is documented."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from headgate.policy.rules import compile_source, parse
from headgate.policy.rules.vocabulary import ACTIONS, FIELDS, OPERATORS, SELECTIONS

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs/reference/yaml-policy.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", REFERENCE, re.MULTILINE | re.DOTALL)
TEMPLATES = {
    item.name.removesuffix(".yaml"): item.read_text("utf-8")
    for item in files("headgate.policy").joinpath("templates").iterdir()
    if item.name.endswith(".yaml")
}


def test_the_templates_are_all_there() -> None:
    expected = {
        "interactive-first", "batch-to-most-free-vram", "determinism-first",
        "night-shift", "model-affinity", "cost-saver",
    }  # fmt: skip
    assert expected <= set(TEMPLATES)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_a_template_compiles_without_warning_and_says_its_purpose(name: str) -> None:
    policy, diagnostics = parse(TEMPLATES[name])
    assert diagnostics == []
    assert policy is not None
    assert policy.name == name
    assert policy.description is not None
    assert policy.description.endswith(".")


def _world(build: Any, hour: int = 12, weekday: int = 2) -> dict[str, Any]:
    return {
        "queue": [
            build.job("batch", priority="batch", model_ref="m", wait_ms=5, **{"class": "low"}),
            build.job("seeded", seed=1, model_ref="m", wait_ms=5),
            build.job("chat", priority="interactive", model_ref="m", wait_ms=5, **{"class": "high"}),
        ],
        "pools": [build.pool(build.worker("w", model_ref="m"))],
        "metrics": {"queue_depth": 3},
        "time": {"hour": hour, "weekday": weekday},
    }


@pytest.mark.parametrize(
    ("name", "hour", "job"),
    [
        ("interactive-first", 12, "chat"),
        ("batch-to-most-free-vram", 12, "batch"),
        ("determinism-first", 12, "seeded"),
        ("night-shift", 23, "batch"),
        ("night-shift", 12, "seeded"),
        ("model-affinity", 12, "batch"),
        ("cost-saver", 12, "seeded"),
    ],
)
def test_a_template_serves_first_what_it_promises(run: Any, build: Any, name: str, hour: int, job: str) -> None:
    assert run(TEMPLATES[name], **_world(build, hour))["job_id"] == job


def test_batch_waits_by_day_and_runs_off_peak(run: Any, build: Any) -> None:
    for name in ("night-shift", "cost-saver"):
        world = _world(build)
        world["queue"] = world["queue"][:1]
        assert run(TEMPLATES[name], **world)["action"] == "wait"
        assert run(TEMPLATES[name], **{**world, "time": {"hour": 23, "weekday": 2}})["job_id"] == "batch"
    world = _world(build)
    long_waiting = {**world, "queue": [{**world["queue"][0], "wait_ms": 14_400_000}]}
    assert run(TEMPLATES["cost-saver"], **long_waiting)["job_id"] == "batch"


def test_cost_saver_switches_off_idle_workers_off_peak(run: Any, build: Any) -> None:
    pools = [build.pool(build.worker("idle", jobs_completed=3))]
    night = {"hour": 2, "weekday": 1}
    answer = run(TEMPLATES["cost-saver"], pools=pools, time=night, metrics={"queue_depth": 0})
    assert answer["evict_worker_id"] == "idle"


def test_interactive_first_preempts_when_nothing_is_free(run: Any, build: Any) -> None:
    world = _world(build)
    running = [{"id": "running-low", "class": "low"}]
    world["pools"] = [build.pool(build.worker("w", status="busy", current_jobs=running))]
    answer = run(TEMPLATES["interactive-first"], **world)
    assert (answer["action"], answer["job_id"]) == ("preempt", "chat")


def test_model_affinity_starts_a_worker_for_an_unserved_model(run: Any, build: Any) -> None:
    world = _world(build)
    world["pools"] = [build.pool(gpus=[{"id": 0, "vram_free": 24}])]
    assert run(TEMPLATES["model-affinity"], **world)["start_worker"]["model_ref"] == "m"


def test_the_reference_has_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("source", EXAMPLES)
def test_an_example_of_the_reference_compiles_without_warning(run: Any, source: str) -> None:
    assert compile_source(source).warnings == ()
    assert run(source)["action"] == "wait"


def test_the_reference_names_every_word() -> None:
    fields = [f"{field.split('.')[1]}" for field in FIELDS]
    missing = [word for word in (*OPERATORS, *ACTIONS, *SELECTIONS, *fields) if word not in REFERENCE]
    assert missing == []


def test_the_reference_names_every_diagnostic_code() -> None:
    package = Path(str(files("headgate.policy.rules")))
    source = "".join(path.read_text("utf-8") for path in sorted(package.glob("*.py")) if path.name != "edit.py")
    codes = set(re.findall(r'(?:notes\.add|_note|add_in_block|Diagnostic|_RefusedError)\(\s*"([a-z0-9-]+)"', source))
    assert len(codes) > 20
    assert sorted(code for code in codes if f"`{code}`" not in REFERENCE) == []
