"""The filters of images: Go's patterns of names, labels, moments; whatever else is refused, and nothing is slow."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.daemon.images import filters
from engine.errors import Invalid, NotFound
from tests.harness import parts

# Pattern, text, whether Go's path.Match says yes; None where it is a syntax error.
GLOBS = [
    ("busybox", "busybox", True),
    ("busybox", "busybox:latest", False),
    ("busy*", "busybox:latest", True),
    ("*", "localhost:5000/a", False),
    ("*/*", "localhost:5000/a", True),
    ("*:v?", "a:v1", True),
    ("a*b*c", "axxbyybzzc", True),
    ("a*b*c", "axxc", False),
    ("a*b*c", "abc/c", False),
    ("[a-c]x", "bx", True),
    ("[^a-c]x", "bx", False),
    ("[^a-c]x", "/x", False),
    ("[.-z]x", "/x", False),
    ("[a\\-c]x", "-x", True),
    ("\\*x", "*x", True),
    ("\\*x", "ax", False),
    ("a?b", "a/b", False),
    ("(a|b)+", "a", False),
    ("", "a", False),
    ("[", "a", None),
    ("[]a]", "a", None),
    ("[z-a]", "a", None),
    ("a\\", "a", None),
    ("[a-]", "a", None),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), GLOBS)
def test_a_pattern_matches_as_in_go(pattern, text, expected):
    if expected is None:
        with pytest.raises(Invalid, match="syntax error in pattern"):
            filters.glob(pattern)
    else:
        assert bool(filters.glob(pattern).fullmatch(text)) is expected


@given(some.text("ab*?[]^-\\/", max_size=12), some.text("ab/-", max_size=12))
def test_any_pattern_is_an_expression_or_refused(pattern, text):
    try:
        filters.glob(pattern).fullmatch(text)
    except Invalid:
        pass


def test_no_pattern_is_slow():
    begun = time.thread_time()
    for pattern in ("*a" * 200 + "b", "a*" * 250 + "b", "?*" * 250, "*" * 500 + "x"):
        filters.glob(pattern).fullmatch("a" * 255)
    assert time.thread_time() - begun < 1


@given(some.text(some.sampled_from("ab*?"), max_size=8), some.text(some.sampled_from("ab/"), max_size=8))
def test_stars_find_what_an_exhaustive_search_finds(pattern, text):
    def matches(left: str, right: str) -> bool:
        if not left:
            return not right
        if left[0] == "*":
            return matches(left[1:], right) or (right[:1] not in ("", "/") and matches(left, right[1:]))
        return (
            bool(right)
            and (left[0] == right[0] or (left[0] == "?" and right[0] != "/"))
            and matches(left[1:], right[1:])
        )

    assert bool(filters.glob(pattern).fullmatch(text)) == matches(pattern, text)


def image(created="2026-01-02T03:04:05.5Z", names=("docker.io/library/a:1",), labels=None):
    return parts.image(created=created, names=names, config={"config": {"Labels": labels}})


class Store:
    """Finds one image, and one without a date."""

    def find(self, name):
        if name not in ("a", "undated"):
            raise NotFound(f"No such image: {name}:latest")
        return image() if name == "a" else image("")


def passes(one, **asked):
    return all(
        test(one) for test in filters.compile_filters(Store(), {k.replace("_", "!"): v for k, v in asked.items()})
    )


def test_labels_must_all_be_there_and_none_of_the_others():
    one = image(labels={"a": "1", "b": ""})
    assert passes(one, label=("a", "b=")) and passes(one, label_=("c", "a=2"))
    assert not passes(one, label=("a", "c")) and not passes(one, label=("a=2",)) and not passes(one, label_=("a", "c"))
    assert not passes(image(labels=None), label=("a",))


def test_moments_count_to_the_nanosecond():
    assert passes(image("2026-01-02T03:04:05.499999999Z"), before=("a",))
    assert not passes(image("2026-01-02T03:04:05.5Z"), before=("a",))
    assert passes(image("2026-01-02T03:04:05.500000001Z"), since=("a",))
    assert passes(image("2026-01-02T04:04:05.6+01:00"), since=("a",)), "zones count"
    assert not passes(image(""), since=("a",)) and not passes(image("soon"), before=("a",))
    assert passes(image(), since=("undated",)) and not passes(image(), before=("undated",))
    assert not passes(image(""), since=("undated",))
    assert passes(image(), until=("1h",)) and not passes(image(), until=("2025-01-01",))
    assert passes(image(), until=("1h", "2h")) and not passes(image(), until=("1h", "2025-01-01")), "before all of them"


def test_a_name_is_found_in_its_short_form_and_in_its_whole_form():
    one = image(names=("docker.io/library/a:1",))
    for pattern in ("a", "a:*", "docker.io/library/a", "docker.io/library/a:1", "docker.io/*/a:?", "*/library/a"):
        assert passes(one, reference=(pattern,)), pattern
    for pattern in ("library/a", "docker.io/a", "docker.io/*", "docker.io/library/a:2"):
        assert not passes(one, reference=(pattern,)), pattern


@pytest.mark.parametrize(
    "asked",
    [
        {"nope": ("1",)},
        {"dangling": ("maybe",)},
        {"dangling": ("true", "false")},
        {"until": ("tomorrow",)},
        {"until": ("1h", "tomorrow")},
        {"reference": ("x" * 600,)},
    ],
)
def test_what_makes_no_sense_is_refused(asked):
    with pytest.raises(Invalid):
        filters.compile_filters(Store(), asked)


def test_an_image_that_is_not_there_is_told():
    with pytest.raises(NotFound, match="No such image: b:latest"):
        filters.compile_filters(Store(), {"before": ("b",)})


def test_dangling_is_what_has_no_name():
    assert passes(image(names=()), dangling=("1",)) and passes(image(), dangling=("false",))
    assert not passes(image(), dangling=("true",))
    assert passes(image(), reference=("a", "b")) and passes(image(), reference=("?:[0-9]",))
    assert not passes(image(names=()), reference=("*",))
