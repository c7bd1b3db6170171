"""The reference keeps up with the code: what is not documented, or documented wrongly, fails here."""

import ast
import re
from pathlib import Path

import msgspec
import pytest

from headgate.core import errors, job_input
from headgate.core.events import EVENT_TYPES, TRANSIENT
from headgate.core.job import NUMBERED, PRIORITIES, JobKind, JobSpec, Retry
from headgate.core.job_input import Limits, parse_job
from headgate.core.quantities import duration
from headgate.core.retention import Retention
from headgate.core.settings import SIGNALS, Settings
from headgate.core.states import JobState, Trigger, diagram
from tools import engine_docs, error_docs, state_docs

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
# Blocks below `<!-- run -->` belong together: the test of their page runs them as one program.
PYTHON = re.compile(r"^(?<!<!-- run -->\n)```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def tables(page: str, *header: str) -> list[list[str]]:
    """The rows of every table of a page that begins with the given header, without backticks."""
    rows: list[list[str]] = []
    inside = False
    for line in (REFERENCE / f"{page}.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if tuple(cells[: len(header)]) == header:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(line) <= set("|- "):
            rows.append([cell.replace("`", "") for cell in cells])
    return rows


def column(page: str, *header: str) -> list[str]:
    return [row[0] for row in tables(page, *header)]


# -- jobs -----------------------------------------------------------------------------------------------------------


def test_every_field_of_a_job_is_documented_once() -> None:
    in_retry = set(Retry.__struct_fields__)
    documented = [name for name in column("jobs", "field", "type", "default") if name not in in_retry]
    accepted = [*job_input._OWN, *job_input._KIND]
    assert sorted(documented) == sorted(accepted)
    assert sorted(accepted) == sorted({*JobKind.__struct_fields__, *JobSpec.__struct_fields__} - {"kind"})


def test_the_documented_defaults_are_those_of_a_job_that_says_nothing() -> None:
    spec = parse_job({})
    rows = {row[0]: row[2] for row in tables("jobs", "field", "type", "default")}
    for field in ("type", "priority", "tenant", "units", "rank", "on_dependency_failure"):
        assert rows[field] == str(getattr(spec.kind, field)), field
    empty = {field for field, default in rows.items() if default == "none"}
    has_none = {name for part in (spec, spec.kind) for name in part.__struct_fields__ if getattr(part, name) is None}
    assert empty == has_none


def test_every_field_of_a_retry_is_documented_with_its_default() -> None:
    rows = {row[0]: row[2] for row in tables("jobs", "field", "type", "default") if row[0] in Retry.__struct_fields__}
    assert set(rows) == set(Retry.__struct_fields__)
    plain = Retry()
    assert (int(rows["attempts"]), float(rows["factor"]), float(rows["jitter"])) == (
        plain.attempts,
        plain.factor,
        plain.jitter,
    )
    assert (duration(rows["initial"], ""), duration(rows["max"], "")) == (plain.initial, plain.max)
    assert tuple(rows["on"].split(", ")) == ("failed", "expired")
    assert set(rows["on"].split(", ")) == set(plain.on)


def test_every_kind_of_run_and_its_fields_are_documented() -> None:
    found: dict[str, set[str]] = {}
    kind = ""
    for row in tables("jobs", "kind", "field"):
        kind = row[0] or kind
        found.setdefault(kind, set()).update({row[1]} - {""})
    assert found == {name: set(fields) for name, fields in job_input._RUN_FIELDS.items()}


def test_every_priority_is_documented_under_its_class() -> None:
    classes = {row[0]: row for row in tables("jobs", "class", "names", "numbers")}
    names = {name: row[0] for row in classes.values() for name in row[1].split(", ")}
    assert names == {name: list(classes)[index] for name, index in PRIORITIES.items()}
    numbers = {int(number): row[0] for row in classes.values() for number in row[2].split(", ")}
    assert numbers == {number: names[name] for number, name in NUMBERED.items()}


# -- states ---------------------------------------------------------------------------------------------------------


def test_the_picture_of_the_states_is_drawn_from_the_table() -> None:
    assert state_docs.PICTURE.read_text(encoding="utf-8") == state_docs.svg(diagram()), "run python -m tools.state_docs"


def test_the_page_of_the_states_is_written_from_the_table() -> None:
    text = state_docs.PAGE.read_text(encoding="utf-8")
    assert text == state_docs.page(text, diagram()), "run python -m tools.state_docs"


def test_another_table_gives_another_picture_and_page() -> None:
    fewer = "\n".join(line for line in diagram().splitlines() if "grant" not in line)
    assert state_docs.svg(fewer) != state_docs.svg(diagram())
    assert state_docs.section(fewer) != state_docs.section(diagram())


def test_every_state_and_every_trigger_is_explained() -> None:
    assert column("states", "state", "the job") == [str(state) for state in JobState]
    assert column("states", "trigger", "comes from") == [str(trigger) for trigger in Trigger]


# -- errors ---------------------------------------------------------------------------------------------------------


def core_errors(error: type[errors.HeadgateError]) -> list[type[errors.HeadgateError]]:
    below = [cls for cls in error.__subclasses__() if cls.__module__ == errors.__name__]
    return [error, *(cls for child in below for cls in core_errors(child))]


def test_the_tree_of_errors_is_documented_as_it_is() -> None:
    documented = [tuple(row[:3]) for row in tables("errors", "error", "kind of", "code")]
    parents = {cls: cls.__bases__[0].__name__ for cls in core_errors(errors.HeadgateError)}
    parents[errors.HeadgateError] = ""
    assert documented == [(cls.__name__, parent, cls.code) for cls, parent in parents.items()]


def test_errors_beyond_the_core_are_listed_as_they_are() -> None:
    text = error_docs.PAGE.read_text(encoding="utf-8")
    assert text == error_docs.page(text), "run python -m tools.error_docs"
    assert {"StoreDamaged", "EngineSilent", "InvalidPolicy", "LeaseLost"} <= {
        error.__name__ for error in error_docs.errors()
    }


# -- settings -------------------------------------------------------------------------------------------------------


def test_every_setting_is_documented_with_its_default() -> None:
    plain = Settings()
    documented = {row[0]: row[1] for row in tables("settings", "setting", "default")}
    assert set(documented) == set(Settings.__struct_fields__)
    for name, default in documented.items():
        if name not in ("signals", "limits", "retention"):
            assert ast.literal_eval(default) == getattr(plain, name), name


def test_every_limit_is_documented_with_its_default() -> None:
    documented = {row[0]: int(row[1]) for row in tables("settings", "limit", "default")}
    assert documented == msgspec.structs.asdict(Limits())


def test_every_age_is_documented_with_its_default() -> None:
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8").partition("### Retention")[2].partition("\n## ")[0]
    found = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.MULTILINE))
    assert {name: ast.literal_eval(default) for name, default in found.items()} == msgspec.structs.asdict(Retention())


def test_every_signal_is_documented_with_its_thresholds() -> None:
    documented = {row[0]: tuple(map(float, row[1:4])) for row in tables("settings", "signal", "low")}
    assert documented == {name: (at.low, at.high, at.largest) for name, at in SIGNALS.items()}


# -- events ---------------------------------------------------------------------------------------------------------


def test_every_event_is_documented_with_its_fields() -> None:
    documented = {row[0]: (row[1].split(", "), row[2]) for row in tables("events", "event", "fields", "kept")}
    assert documented == {
        str(event.__struct_config__.tag): (
            [name for name in event.__struct_fields__ if name != "at"],
            "no" if event in TRANSIENT else "yes",
        )
        for event in EVENT_TYPES
    }


# -- the readme -----------------------------------------------------------------------------------------------------


def test_the_readme_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- example:start -->.*?```python\n(.*?)```.*?```text\n(.*?)```", readme, re.DOTALL)
    assert shown, "README.md shows no output after its example"
    exec(compile(shown[1], "<readme>", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == shown[2]


# -- examples -------------------------------------------------------------------------------------------------------

# Pages whose pieces belong together are run as a whole, in test_python_reference.py.
WHOLE = [ROOT / "docs/tutorial/first-steps.md", ROOT / "docs/how-to/write-a-worker.md"]
EXAMPLES = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
    for page in sorted({*(ROOT / "docs").rglob("*.md")} - {*WHOLE})
    for number, code in enumerate(PYTHON.findall(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_every_example_of_the_documentation_runs(code: str) -> None:
    exec(compile(code, "<example>", "exec"), {"__name__": "example"})


def test_commands_and_questions_are_listed_as_they_are() -> None:
    text = engine_docs.PAGE.read_text(encoding="utf-8")
    assert text == engine_docs.page(text), "run python -m tools.engine_docs"
    assert "| `Cancel` | `job_id`, `reason`? |" in text
