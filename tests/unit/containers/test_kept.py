"""What is kept of containers: found by equal values alone, within its room, and never of a removed one."""

from hypothesis import given
from hypothesis import strategies as some

from engine.daemon.containers.kept import Kept

IDS = ("a", "b", "c", "d")


def test_it_is_found_by_equal_values_alone():
    kept = Kept(10_000, IDS.__contains__)
    kept.keep("a", ("name", {"k": 1}), (b"made",))
    assert kept.find("a", ("name", {"k": 1})) == (b"made",)
    assert kept.find("a", ("name", {"k": 2})) is None
    assert kept.find("b", ("name", {"k": 1})) is None
    kept.keep("a", "other", (b"again",))
    assert kept.find("a", ("name", {"k": 1})) is None
    kept.drop("a")
    assert kept.find("a", "other") is None
    assert kept.taken == 0


def test_nothing_is_kept_of_a_container_that_was_removed_meanwhile():
    kept = Kept(10_000, IDS.__contains__)
    kept.keep("gone", 1, (b"x",))
    assert kept.find("gone", 1) is None
    assert kept.taken == 0


@given(some.lists(some.tuples(some.sampled_from(IDS), some.integers(0, 3000), some.booleans()), max_size=30))
def test_it_never_takes_more_than_its_room(steps):
    kept = Kept(4000, IDS.__contains__)
    for number, (identity, size, dropped) in enumerate(steps):
        kept.keep(identity, number, (b"x" * size,))
        found = kept.find(identity, number)
        assert found in (None, (b"x" * size,))
        assert found is not None or size > 3000
        if dropped:
            kept.drop(identity)
        assert 0 <= kept.taken <= 4000
    for identity in IDS:
        kept.drop(identity)
    assert kept.taken == 0
