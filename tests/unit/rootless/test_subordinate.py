"""The arguments of newuidmap(1)."""

from engine.rootless import subordinate


def test_root_is_the_user_and_the_others_follow():
    assert subordinate.arguments(7, []) == ["0", "7", "1"]
    assert subordinate.arguments(7, [(100, 10), (300, 5)]) == ["0", "7", "1", "1", "100", "10", "11", "300", "5"]
