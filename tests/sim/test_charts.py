"""Charts as files: whole SVGs that any program can show, and pictures of them."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from headgate.core.errors import InvalidInput
from headgate.sim import Shape, compare, generate, run, svg
from headgate.sim.charts import Chart, charts, difference_charts, write_png, write_svg

NAMES = {"waiting", "units", "wait", "slowdown"}


@pytest.fixture(scope="module")
def drawn() -> list[Chart]:
    compared = compare(generate("lublin", 1, Shape(jobs=80)), ["fcfs", "easy-backfill"])
    return [*difference_charts(compared), *charts([compared.runs[name][0] for name in compared.policies])]


def test_every_chart_becomes_a_file_of_its_own_that_needs_nothing_else(drawn: list[Chart], tmp_path: Path) -> None:
    files = write_svg(tmp_path / "new" / "folder", drawn)
    assert {path.stem for path in files} == NAMES | {
        *("gantt-fcfs", "gantt-easy-backfill", "difference-wait", "difference-slowdown")
    }
    for path in files:
        text = path.read_text("utf-8")
        assert ET.fromstring(text).tag.endswith("svg")
        assert "<style>" in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "easy-backfill</text>" in (tmp_path / "new/folder/wait.svg").read_text("utf-8")  # who is who


def test_pictures_have_twice_the_size_and_are_not_blank(drawn: list[Chart], tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    for path in write_png(tmp_path, drawn):
        data = path.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", data[16:24])
        assert width == 2 * svg.WIDTH
        assert len(data) > height * 2


def test_without_the_extra_pictures_are_refused_with_what_to_install(
    drawn: list[Chart], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(InvalidInput, match=r"headgate\[png\]"):
        write_png(tmp_path, drawn)


def test_a_policy_with_a_strange_name_gets_a_harmless_file_name(tmp_path: Path) -> None:
    (path,) = write_svg(tmp_path, [Chart("gantt-../../etc/x y", "", svg.lines({}, "", "", ""))])
    assert path.parent == tmp_path
    assert path.name == "gantt-..-..-etc-x-y.svg"


def test_an_empty_run_has_charts_too() -> None:
    for chart in charts([run(generate("poisson", 0, Shape(jobs=0)), "fcfs")]):
        ET.fromstring(chart.whole())


@pytest.mark.parametrize(
    ("seconds", "unit"), [(0, "seconds"), (100, "seconds"), (200, "minutes"), (40_000, "hours"), (1e6, "days")]
)
def test_time_is_shown_in_a_unit_with_few_digits(seconds: float, unit: str) -> None:
    assert svg.time_unit(seconds)[1] == unit


def test_an_axis_of_waits_is_marked_with_spans_that_people_know() -> None:
    chart = svg.cumulative({"a": [1.0, 50.0, 4_000.0, 90_000.0]}, "", "wait", svg.moments)
    for mark in ("1 s", "10 s", "1 min", "10 min", "1 h", "10 h", "1 d"):
        assert f">{mark}</text>" in chart
    assert [name for _, name in svg.powers(0.0, 3.2)] == ["1", "10", "100", "1k"]
