"""What of a mount decides the outcome of its step."""

import pytest

from engine.daemon.builder.mounting import Mount
from engine.daemon.builder.run import Command


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"id": "a"}, {"id": "b"}, True),
        ({"id": "a", "sharing": "shared"}, {"id": "a", "sharing": "locked"}, True),
        ({"id": ""}, {"id": "/c"}, True),
        ({"id": ""}, {"id": "a"}, False),
        ({"id": ""}, {"id": "", "sharing": "private"}, False),
        ({"id": "one//c"}, {"id": "two//c"}, False),
        ({"id": "a"}, {"id": "a", "mode": 0o700}, False),
    ],
)
def test_the_name_of_a_cache_decides_only_where_it_is_the_usual_one(one: dict, other: dict, same: bool) -> None:
    found = [Mount(type="cache", target="/c", **each).decides() for each in (one, other)]
    assert (found[0] == found[1]) is same


def test_the_id_of_a_secret_decides() -> None:
    one, other = (Mount(type="secret", target="/s", id=id).decides() for id in ("a", "b"))
    assert one != other


def test_the_addresses_of_hosts_do_not_decide() -> None:
    def decides(*hosts: str) -> list:
        return Command(argv=("x",), hosts=hosts).decides()

    assert decides("a:1.2.3.4") == decides("a:::1")
    assert decides("a:1.2.3.4") != decides("b:1.2.3.4")
