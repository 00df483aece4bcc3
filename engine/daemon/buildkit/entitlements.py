"""What a build may do beyond its sandbox: its client asks for it (`--allow`), and the daemon's settings grant it.

Pure. Source: buildkit, util/entitlements.
"""

from collections.abc import Sequence

from engine.daemon.builder import cdigrants
from engine.errors import Forbidden, Invalid

# BuildKit's name → the name in the daemon's settings.
_NAMES = {"network.host": "network-host", "security.insecure": "security-insecure", cdigrants.ENTITLEMENT: "device"}


def granted(asked: Sequence[str], settings: Sequence[str]) -> frozenset[str]:
    """Those that the build has, by BuildKit's names. asked: by the client; settings: that the daemon grants

    Raises Invalid, Forbidden in BuildKit's words.
    """
    found: set[str] = set()
    for each in asked:
        name, _, device = each.partition("=")
        if name == cdigrants.ENTITLEMENT and device:
            cdigrants.check(device)
        elif name != cdigrants.ENTITLEMENT:
            name = each
        if name not in _NAMES:
            raise Invalid(f"unknown entitlement {name}")
        if _NAMES[name] not in settings:
            raise Forbidden(f"granting entitlement {name} is not allowed by build daemon configuration")
        found.add(f"{name}={device}" if name == cdigrants.ENTITLEMENT and device else name)
    return frozenset(found)
