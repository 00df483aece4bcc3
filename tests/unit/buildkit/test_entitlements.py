"""What builds are given beyond their sandbox."""

import pytest

from engine.daemon.buildkit import entitlements
from engine.errors import Forbidden, Invalid


def test_what_the_daemon_grants_is_given_to_who_asks() -> None:
    assert entitlements.granted([], ["network-host", "security-insecure"]) == frozenset()
    assert entitlements.granted(["network.host"], ["network-host"]) == {"network.host"}
    assert entitlements.granted(["device=", "device=a/b=c,alias=d"], ["device"]) == {"device", "device=a/b=c,alias=d"}


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("security.insecure", Forbidden, "granting entitlement security.insecure is not allowed by build daemon"),
        ("weather", Invalid, "unknown entitlement weather"),
        ("device", Forbidden, "granting entitlement device is not allowed by build daemon"),
        ("device=vendor.example/class", Forbidden, "granting entitlement device is not allowed by build daemon"),
        ("device=a,b", Invalid, 'invalid device config "b"'),
        ("device=a,b=c", Invalid, 'unknown device config key "b"'),
        ("device.a", Invalid, "unknown entitlement device.a"),
    ],
)
def test_what_is_not_given(name: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words.replace(".", r"\.")):
        entitlements.granted([name], ["network-host"])
