"""Capability names, sets and bits."""

import pytest

from engine.errors import Invalid
from engine.sandbox import capabilities
from engine.sandbox.capabilities import ALL, DEFAULT, effective


def test_the_default_is_the_mask_that_docker_shows() -> None:
    assert capabilities.mask(DEFAULT) == 0xA80425FB and len(DEFAULT) == 14
    assert capabilities.mask(ALL) == (1 << 41) - 1


@pytest.mark.parametrize(
    ("add", "drop", "privileged", "expected"),
    [
        (None, None, False, set(DEFAULT)),
        (["sys_admin"], [], False, {*DEFAULT, "CAP_SYS_ADMIN"}),
        (["CAP_CHOWN"], [], False, set(DEFAULT)),
        ([], ["CAP_CHOWN", "net_raw"], False, set(DEFAULT) - {"CAP_CHOWN", "CAP_NET_RAW"}),
        ([], ["ALL"], False, set()),
        (["NET_ADMIN"], ["all"], False, {"CAP_NET_ADMIN"}),
        (["ALL"], ["CHOWN"], False, set(ALL) - {"CAP_CHOWN"}),
        ([], ["ALL"], True, set(ALL)),
    ],
)
def test_adding_and_dropping(add: list | None, drop: list | None, privileged: bool, expected: set[str]) -> None:
    found = effective(add, drop, privileged)
    assert set(found) == expected and len(set(found)) == len(found)


@pytest.mark.parametrize(("add", "drop", "option"), [(["no_such_cap"], [], "CapAdd"), ([], ["no_such_cap"], "CapDrop")])
def test_an_unknown_name_is_refused_in_dockers_words(add: list[str], drop: list[str], option: str) -> None:
    with pytest.raises(Invalid) as caught:
        effective(add, drop)
    assert str(caught.value) == f'invalid {option}: unknown capability: "CAP_NO_SUCH_CAP"'


def test_bits_and_names_are_inverse() -> None:
    assert capabilities.names(capabilities.mask(DEFAULT)) == tuple(sorted(DEFAULT, key=ALL.index))
    assert capabilities.names(1 << 50) == ("CAP_50",)
    with pytest.raises(Invalid):
        capabilities.mask(["CAP_WHAT"])
