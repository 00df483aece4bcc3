"""Tests of `bench.results`."""

import pytest

from bench.results import Figure, Results, read


def figure(case: str, engine: str, value: float, **detail: float) -> Figure:
    return Figure(case, engine, value, value, value, 1, detail)


@pytest.fixture
def found() -> Results:
    """A run with one peer and one floor."""
    return Results(
        "2026-11-20 06:00 UTC",
        {"processors": "2 processors"},
        {"engine": "1.0", "dockerd": "20.10.24"},
        {"crun run": ""},
        [
            figure("ping", "dockerd", 20000.0),
            figure("ping", "engine", 10000.0),
            figure("flow_none", "engine", 6.0, create=1.0, start=4.0),
            figure("flow_none", "dockerd", 120.0),
            figure("flow_none", "crun run", 4.5),
        ],
        {"attach dockerd": "no"},
    )


def test_what_is_written_is_read_again(found, tmp_path):
    found.write(tmp_path / "figures.json")
    assert read(tmp_path / "figures.json") == found


def test_cases_stand_in_the_tables_order_whatever_the_order_of_the_figures(found):
    assert [case.key for case in found.cases()] == ["flow_none", "ping"]


def test_the_advantage_is_above_one_where_ours_is_better(found):
    assert found.advantage("flow_none", "dockerd") == 20.0
    assert found.advantage("ping", "dockerd") == 0.5
    assert found.advantage("attach", "dockerd") is None


def test_a_goal_in_multiples_follows_the_other_column_of_the_same_run(found):
    assert found.goal("flow_none") == (6.75, True)


def test_a_goal_without_its_other_column_cannot_be_told(found):
    found.figures = [figure for figure in found.figures if figure.engine != "crun run"]
    assert found.goal("flow_none") is None


def test_a_missed_goal_is_said(found):
    found.figures.append(figure("logs_read", "engine", 900.0))
    assert found.goal("logs_read") == (1000, False)


@pytest.mark.parametrize(("dockerd", "limit", "reached"), [(240.0, 10, True), (96.0, 8.0, False)])
def test_of_two_goals_the_one_counts_that_asks_for_more(found, dockerd, limit, reached):
    found.figures += [figure("flow_bridge", "engine", 9.0), figure("flow_bridge", "dockerd", dockerd)]
    assert found.goal("flow_bridge") == (limit, reached)
