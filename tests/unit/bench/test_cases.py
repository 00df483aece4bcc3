"""Tests of `bench.cases`."""

import pytest

from bench import cases


def test_no_choice_is_every_case_that_is_not_switched_off():
    assert cases.chosen("") == (*(case.key for case in cases.CASES if case.default), *cases.GROWTH_BY_KEY)


def test_all_is_really_all():
    assert cases.chosen("all") == (*cases.BY_KEY, *cases.GROWTH_BY_KEY)


def test_a_word_names_every_case_that_begins_with_it_in_the_tables_order():
    assert cases.chosen("logs,flow") == (
        "flow_none",
        "flow_host",
        "flow_bridge",
        "logs_write",
        "logs_read",
        "logs_tail",
    )


def test_a_word_that_fits_nothing_is_refused_by_name():
    with pytest.raises(ValueError, match="no such case: sing"):
        cases.chosen("flow,sing")


def test_twice_as_fast_is_an_advantage_of_two_for_times_and_for_rates():
    assert cases.BY_KEY["flow_none"].advantage(5.0, 10.0) == 2.0
    assert cases.BY_KEY["ping"].advantage(10.0, 5.0) == 2.0


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.key)
def test_a_goal_that_is_a_multiple_names_a_column_and_no_case_is_named_twice(case):
    assert [other.key for other in cases.CASES].count(case.key) == 1
    assert case.goal is None or case.goal.value > 0
    assert case.goal is None or not case.goal.case or case.goal.case in cases.BY_KEY
