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


def test_there_is_no_advantage_over_a_figure_below_zero(found):
    found.figures += [figure("port_memory", "engine", 5.0), figure("port_memory", "dockerd", -57.0)]
    assert found.advantage("port_memory", "dockerd") is None


def test_the_advantage_is_above_one_where_ours_is_better(found):
    assert found.advantage("flow_none", "dockerd") == 20.0
    assert found.advantage("ping", "dockerd") == 0.5
    assert found.advantage("attach", "dockerd") is None


def test_a_goal_in_multiples_follows_the_other_column_of_the_same_run(found):
    assert found.goal("flow_none") == (4.5, False)


def test_a_goal_in_multiples_of_another_row_follows_that_row(found):
    found.figures.append(figure("flow_bridge", "engine", 7.5))
    limit, reached = found.goal("flow_bridge")
    assert (limit, reached) == (pytest.approx(7.8), True)


@pytest.mark.parametrize(("podman", "limit"), [(9000.0, 40000.0), (30000.0, 60000.0)])
def test_a_goal_in_multiples_of_the_best_peer_follows_the_best_one(found, podman, limit):
    found.engines["podman"] = "4.3"
    found.figures.append(figure("ping", "podman", podman))
    assert found.goal("ping") == (limit, False)


def test_what_has_grown_is_read_again(found, tmp_path):
    found.growth["growth_images_list"] = {"1": 0.2, "1000": 9.0}
    found.write(tmp_path / "figures.json")
    assert read(tmp_path / "figures.json").growth == {"growth_images_list": {"1": 0.2, "1000": 9.0}}


def test_a_goal_without_its_other_column_cannot_be_told(found):
    found.figures = [figure for figure in found.figures if figure.engine != "crun run"]
    assert found.goal("flow_none") is None


def test_a_missed_goal_is_said(found):
    found.figures.append(figure("logs_read", "engine", 900.0))
    assert found.goal("logs_read") == (2000, False)


@pytest.mark.parametrize(("crun", "limit", "reached"), [(8.0, 2.5, True), (4.0, 2.0, False)])
def test_of_two_goals_the_one_counts_that_asks_for_more(found, crun, limit, reached):
    found.figures += [figure("exec", "engine", 2.25), figure("exec", "crun exec", crun)]
    assert found.goal("exec") == (limit, reached)
