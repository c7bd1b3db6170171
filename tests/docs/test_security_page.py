"""The page on security names tests that exist, and leaves out no case of the table that it follows."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text("utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
DESIGN = ROOT.parent / "shared" / "design" / "6-quality.md"


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def rows(text: str, heading: str) -> list[str]:
    """The first cells of the table under a heading."""
    _, _, after = text.partition(f"{heading}")
    lines = re.split(r"^#+ ", after, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
    found = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    return found[2:]


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_every_test_that_is_named_exists(path: str, name: str) -> None:
    assert name in names_in(path)


def test_every_case_names_a_test() -> None:
    cases = re.findall(r"^\| (?!case|---)([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert len(cases) > 50
    for case, shown in cases:
        assert "::" in shown, case


@pytest.mark.skipif(not DESIGN.exists(), reason="the design documents are not beside this checkout")
def test_every_case_of_the_design_has_its_row() -> None:
    wanted = rows(DESIGN.read_text("utf-8"), "## Faults and bad input")
    assert len(wanted) > 25
    ours = rows(PAGE, "### Faults and bad input")
    begins = [re.split(r"[;:,(]", case)[0].strip().lower() for case in ours]
    missing = [case for case in wanted if not any(case.lower().startswith(begin) for begin in begins)]
    assert missing == []
    assert len(ours) == len(wanted)
