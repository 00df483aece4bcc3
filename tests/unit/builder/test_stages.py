"""Which stages of a Dockerfile are built, and what stands before them."""

import time

import pytest

from engine.daemon.builder import stages
from engine.daemon.dockerfile import parser
from engine.errors import Invalid


def plan(text: str, target: str = "") -> stages.Plan:
    """The plan, with every variable as `V`."""
    return stages.plan(parser.parse(text.encode()), lambda word: word.replace("$V", "one"), target)


def needed(text: str, target: str = "") -> list[int]:
    """The numbers of the stages that are built."""
    return [stage.index for stage in plan(text, target).stages]


FOUR = "FROM a AS one\nFROM b AS two\nFROM {} AS three\n{}\nFROM three\nRUN x\n"

CASES = [
    ("c", "RUN x", [2, 3]),
    ("one", "RUN x", [0, 2, 3]),
    ("ONE", "RUN x", [0, 2, 3]),
    ("$V", "RUN x", [0, 2, 3]),
    ("0", "RUN x", [2, 3]),  # FROM takes no numbers
    ("c", "COPY --from=two /a /b", [1, 2, 3]),
    ("c", "COPY --from=0 /a /b", [0, 2, 3]),
    ("c", "COPY --from=image /a /b", [2, 3]),
    ("c", "RUN --mount=from=two,target=/x y", [1, 2, 3]),
    ("c", "RUN --mount=type=cache,from=one,target=/x y", [0, 2, 3]),
]


@pytest.mark.parametrize(("base", "step", "expected"), CASES)
def test_what_a_stage_stands_on_is_built_and_nothing_else(base: str, step: str, expected: list[int]) -> None:
    assert needed(FOUR.format(base, step)) == expected


@pytest.mark.parametrize(("target", "expected"), [("one", [0]), ("Two", [1]), ("1", [1]), ("three", [2]), ("", [2, 3])])
def test_a_target_is_a_name_or_a_number(target: str, expected: list[int]) -> None:
    assert needed(FOUR.format("c", "RUN x"), target) == expected


@pytest.mark.parametrize("target", ["four", "4", "99999999999999999999", "-1"])
def test_a_target_that_is_not_there(target: str) -> None:
    with pytest.raises(Invalid, match="could not be found"):
        plan(FOUR.format("c", "RUN x"), target)


def test_steps_are_counted_over_what_is_built() -> None:
    found = plan("ARG x=1\nARG y\n" + FOUR.format("c", "RUN x\nRUN y"))
    assert found.total == 2 + 3 + 2
    assert [one.keyword for one in found.arguments] == ["ARG", "ARG"]


def test_the_last_of_several_stages_with_a_name_is_meant() -> None:
    found = plan("FROM a AS x\nFROM b AS y\nFROM c AS x\nFROM x\n")
    earlier = stages.Earlier(found.every)
    assert earlier.find("x", 4).index == 2
    assert earlier.find("x", 1).index == 0
    assert earlier.find("z", 4) is None and earlier.named("0", 4) is None


def test_many_stages_that_name_one_another_are_planned_soon() -> None:
    """Each name was looked for among all stages, and a variable stood for all of them once more."""
    count = 4900
    text = "".join(f"FROM scratch AS s{number}\n" for number in range(count)) + "FROM scratch\n"
    by_name = text + "".join(f"COPY --from=s{number} a b\n" for number in range(count))
    by_variable = text + "COPY --from=$x a b\n" * count
    for each in (by_name, by_variable):
        dockerfile = parser.statements(each.encode())
        begun = time.process_time()
        assert len(stages.plan(dockerfile, lambda text: text, "").stages) == count + 1
        assert time.process_time() - begun < 2


@pytest.mark.parametrize("name", ["one", "ONE", "two", "0", "1", "2", "3", "", "other", "00", "-1"])
def test_stages_before_another_are_found_as_by_a_search(name: str) -> None:
    every = plan("FROM a AS one\nFROM b AS two\nFROM c AS one\nFROM d").every
    earlier = stages.Earlier(every)
    for index in range(len(every) + 1):
        named = next((each for each in every[:index][::-1] if each.name and each.name == name.lower()), None)
        numbered = every[int(name)] if name.isdigit() and int(name) < index else None
        assert earlier.find(name, index) is (named or numbered)
        assert earlier.named(name, index) is named
