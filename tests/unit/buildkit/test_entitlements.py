"""What builds are given beyond their sandbox."""

import pytest

from engine.daemon.buildkit import entitlements
from engine.errors import Forbidden, Invalid, NotBuilt


def test_what_the_daemon_grants_is_given_to_who_asks() -> None:
    assert entitlements.granted([], ["network-host", "security-insecure"]) == frozenset()
    assert entitlements.granted(["network.host"], ["network-host"]) == {"network.host"}


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("security.insecure", Forbidden, "granting entitlement security.insecure is not allowed by build daemon"),
        ("weather", Invalid, "unknown entitlement weather"),
        ("device", NotBuilt, "devices of builds"),
        ("device=vendor.example/class", NotBuilt, "devices of builds"),
    ],
)
def test_what_is_not_given(name: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words.replace(".", r"\.")):
        entitlements.granted([name], ["network-host"])
