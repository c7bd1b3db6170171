from bench.report import Table, Timing, at_least, at_most, best_of, number


def test_figures_read_like_figures() -> None:
    assert [number(value) for value in (1234567, 51234.6, 0.9876, 12.0, "-")] == [
        "1,234,567",
        "51,235",
        "0.988",
        "12",
        "-",
    ]


def test_a_goal_says_whether_it_is_met() -> None:
    assert str(at_least(0.79, 0.8, " x")) == ">= 0.8 x: MISSED"
    assert str(at_least(0.8, 0.8, " x")) == ">= 0.8 x: met"
    assert str(at_most(601.0, 600.0, " B")) == "<= 600 B: MISSED"


def test_a_table_lines_up_its_columns() -> None:
    table = Table("speed", ["1,000", "ratio"])
    table.add("submit", 12345.0, 0.5, goals=[at_least(0.5, 0.8)])
    table.add("a longer label")
    assert table.render().splitlines() == [
        "speed",
        "                   1,000  ratio  goal",
        "  submit          12,345    0.5  >= 0.8: MISSED",
        "  a longer label",
    ]


def test_the_stopwatch_runs_the_work_as_often_as_asked() -> None:
    calls: list[None] = []
    timing = best_of(5, lambda: calls.append(None))
    assert len(calls) == len(timing.runs) == 5
    assert 0 <= timing.best <= timing.median


def test_the_middle_run_is_not_moved_by_an_outlier() -> None:
    assert Timing((3.0, 1.0, 100.0)).median == 3.0
    assert Timing((3.0, 1.0, 100.0)).best == 1.0
