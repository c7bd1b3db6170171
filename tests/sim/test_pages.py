"""The pages about the simulator say what the code does, and their examples run."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from headgate.sim import GENERATORS, Shape, read_workload
from headgate.sim.workloads import READERS
from headgate.sim.workloads.jsonl import Header, Line

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference/workloads.md").read_text("utf-8")
GUIDE = (DOCS / "how-to/simulate-a-policy.md").read_text("utf-8")


def rows(first: str) -> list[list[str]]:
    """The rows of the table whose head begins with a word, without backticks."""
    table = re.search(rf"^\| {first} \|.*\n\| ---.*\n((?:\|.*\n)+)", REFERENCE, re.MULTILINE)
    assert table is not None, first
    return [[cell.strip().replace("`", "") for cell in line.split("|")[1:-1]] for line in table[1].splitlines()]


def test_every_format_generator_and_field_is_documented() -> None:
    assert [row[0] for row in rows("name")] == list(READERS)
    assert [row[0] for row in rows("model")] == list(GENERATORS)
    assert [row[0] for row in rows("header")] == [field.encode_name for field in msgspec.structs.fields(Header)]
    assert [row[0] for row in rows("job")] == list(Line.__struct_fields__)


def test_the_documented_shape_is_the_default_one() -> None:
    assert {row[0]: row[1] for row in rows("shape")} == {
        name: str(value) for name, value in msgspec.structs.asdict(Shape()).items()
    }


def test_the_example_of_the_format_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "example.jsonl"
    path.write_text(re.findall(r"```json\n(.*?)```", REFERENCE, re.DOTALL)[0])
    found = read_workload(path)
    assert found.problems.total == 0
    assert [(job.id, job.spec.kind.units, job.spec.deadline) for job in found.jobs] == [
        ("a", 2, None),
        ("b", 4, 10_000),
    ]


@pytest.mark.parametrize("number", range(3))
def test_the_examples_of_the_guide_run(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 3
    exec(compile(examples[number], "guide", "exec"), {})
    said = capsys.readouterr().out
    assert ("easy-backfill on lublin-1", "easy-backfill against fcfs", "True True")[number] in said
