"""Declares the daemon's options on builds, and reads their form in daemon.json.

Pure. The names and the form are dockerd's: {"builder": {"entitlements": {"network-host": true}, "gc": {...}}}.
"""

import json
from collections.abc import Callable

from engine.commandline import Option, Value
from engine.errors import Invalid
from engine.settings import configfile, gcpolicy
from engine.settings.gcpolicy import GcPolicy

_ENTITLEMENTS = {"network-host": True, "security-insecure": False, "device": False}
"""What a build may be given that asks for it → whether it may where nobody says otherwise."""
_NONE = "none"


def _entitlement(text: str) -> str:
    if text not in (*_ENTITLEMENTS, _NONE):
        raise Invalid(f"give one of {', '.join((*_ENTITLEMENTS, _NONE))}")
    return text


def _of_file(value: object) -> tuple[str, ...]:
    """The entitlements that are granted, of the object `builder.entitlements`."""
    asked = configfile.members(value, _ENTITLEMENTS)
    for name, granted in asked.items():
        if name not in _ENTITLEMENTS or not isinstance(granted, bool):
            raise Invalid(f"invalid entitlement {name}: {json.dumps(granted)}")
    return tuple(name for name, granted in (_ENTITLEMENTS | asked).items() if granted) or (_NONE,)


OPTIONS = (
    Option(
        "builder-entitlement",
        f"What builds are given that ask for it: {', '.join(_ENTITLEMENTS)}, {_NONE}; repeatable",
        kind="list",
        check=_entitlement,
        default=tuple(name for name, granted in _ENTITLEMENTS.items() if granted),
        value="name",
        key="builder.entitlements",
    ),
)
FILE_ONLY = (
    Option(
        "builder-gc",
        "What the build cache lets go of by itself: enabled, defaultReservedSpace, defaultMaxUsedSpace,"
        " defaultMinFreeSpace, and a policy of rules, as dockerd has them",
        default=GcPolicy(),
        key="builder.gc",
    ),
)
FILE_READERS: dict[str, Callable[[object], Value]] = {"builder.entitlements": _of_file, "builder.gc": gcpolicy.read}
