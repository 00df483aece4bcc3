"""Tests of `bench.table` and `bench.drawing`: the same run shown three ways."""

from xml.etree import ElementTree

import pytest

from bench import drawing, table
from bench.cases import BY_KEY
from bench.results import Figure, Results

SVG = "{http://www.w3.org/2000/svg}"


def run(**values: dict[str, float]) -> Results:
    """A run with these values by case and engine; engines are those beside `crun run`."""
    names = dict.fromkeys(name for by_engine in values.values() for name in by_engine)
    figures = [Figure(case, name, value, value, value, 1) for case in values for name, value in values[case].items()]
    engines = {name: "1" for name in names if name != "crun run"}
    return Results("today", {"kernel": "Linux"}, engines, {"crun run": ""} if "crun run" in names else {}, figures)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0341, "0.034"), (0.5, "0.5"), (5.619, "5.62"), (56.19, "56.2"), (561.9, "562"), (18458, "18500")],
)
def test_a_number_has_no_more_digits_than_mean_something(value, text):
    assert table.number(value) == text


def test_a_row_has_ours_first_the_peers_with_their_ratio_and_the_floor():
    results = run(flow_none={"dockerd": 120.0, "engine": 6.0, "crun run": 4.5})
    assert table.rows(results) == [
        ["case", "engine", "dockerd 1", "near the limit", "goal"],
        [
            "create, start, wait, logs, delete; network none (ms)",
            "6.00",
            "120 (20x)",
            "crun run 4.50 (0.75x)",
            "≤ 4.50 missed",
        ],
    ]


def test_an_engine_without_a_figure_has_a_dash():
    results = run(ping={"engine": 1.0}, list={"engine": 1.0, "podman": 2.0})
    assert table.rows(results)[1][2] == "-"


def test_failures_stand_below_the_table():
    results = run(ping={"engine": 1.0})
    results.failures["attach engine"] = "it broke"
    assert "not measured: attach engine: it broke" in table.text(results)


def test_every_line_of_markdown_has_as_many_cells_as_the_heading():
    results = run(logs_write={"engine": 800.0, "podman": 100.0})
    results.references["yes | cat > file"] = ""
    results.figures.append(Figure("logs_write", "yes | cat > file", 1000.0, 1000.0, 1000.0, 1))
    lines = [line for line in table.markdown(results).splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {6}


def test_the_table_of_growth_has_a_column_for_each_number_and_a_dash_where_none_was_measured():
    results = run(ping={"engine": 1.0})
    assert table.growth(results) == []
    results.growth["growth_images_list"] = {"1": 0.21, "100": 3.0}
    assert table.growth(results) == [
        ["so many", "1", "10", "100", "1000"],
        ["images: the list of all (ms)", "0.21", "-", "3.00", "-"],
    ]
    assert "| images: the list of all (ms) | 0.21 | - | 3.00 | - |" in table.markdown(results)


def test_the_picture_is_xml_with_a_bar_for_each_figure():
    results = run(flow_none={"engine": 6.0, "dockerd": 120.0, "crun run": 4.5}, ping={"engine": 9.0})
    root = ElementTree.fromstring(drawing.svg(results))
    kinds = [rectangle.get("class") for rectangle in root.iter(f"{SVG}rect")]
    assert sorted(kind for kind in kinds if kind.startswith("bar")) == ["bar-floor", "bar-ours", "bar-ours", "bar-peer"]


def test_the_longest_bar_of_a_panel_fills_it():
    results = run(flow_none={"engine": 6.0, "dockerd": 120.0})
    assert [bar.share for bar in drawing.bars(results, BY_KEY["flow_none"])] == [0.05, 1.0]
