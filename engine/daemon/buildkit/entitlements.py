"""What a build may do beyond its sandbox: its client asks for it (`--allow`), and the daemon's settings grant it.

Pure. Source: buildkit, util/entitlements.
"""

from collections.abc import Sequence

from engine.errors import Forbidden, Invalid, NotBuilt

_DEVICE = "device"
# BuildKit's name → the name in the daemon's settings.
_NAMES = {"network.host": "network-host", "security.insecure": "security-insecure"}


def granted(asked: Sequence[str], settings: Sequence[str]) -> frozenset[str]:
    """Those that the build has, by BuildKit's names. asked: by the client; settings: that the daemon grants

    Raises Invalid, Forbidden in BuildKit's words, NotBuilt for devices.
    """
    for name in asked:
        if name.partition("=")[0] == _DEVICE:
            raise NotBuilt("devices of builds (--allow device) are not built in this engine")
        if name not in _NAMES:
            raise Invalid(f"unknown entitlement {name}")
        if _NAMES[name] not in settings:
            raise Forbidden(f"granting entitlement {name} is not allowed by build daemon configuration")
    return frozenset(asked)
