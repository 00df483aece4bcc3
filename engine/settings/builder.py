"""Declares the daemon's options on builds, and reads their form in daemon.json.

Pure. The names and the form are dockerd's: {"builder": {"entitlements": {"network-host": true}}}.
"""

import json
from collections.abc import Callable

from engine.commandline import Option, Value
from engine.errors import Invalid

_ENTITLEMENTS = {"network-host": True, "security-insecure": False}
"""What a build may be given that asks for it → whether it may where nobody says otherwise."""
_NONE = "none"


def _entitlement(text: str) -> str:
    if text not in (*_ENTITLEMENTS, _NONE):
        raise Invalid(f"give one of {', '.join((*_ENTITLEMENTS, _NONE))}")
    return text


def _of_file(value: object) -> tuple[str, ...]:
    """The entitlements that are granted, of the object `builder`."""
    if not isinstance(value, dict) or not isinstance(value.get("entitlements") or {}, dict):
        raise Invalid(f"expected an object, got {json.dumps(value)}")
    if others := sorted(value.keys() - {"entitlements"}):
        raise Invalid(f"{', '.join(others)} is not built in this engine")
    given = value.get("entitlements") or {}
    for name, granted in given.items():
        if name not in _ENTITLEMENTS or not isinstance(granted, bool):
            raise Invalid(f"invalid entitlement {name}: {json.dumps(granted)}")
    return tuple(name for name, granted in (_ENTITLEMENTS | given).items() if granted) or (_NONE,)


OPTIONS = (
    Option(
        "builder-entitlement",
        f"What builds are given that ask for it: {', '.join(_ENTITLEMENTS)}, {_NONE}; repeatable",
        kind="list",
        check=_entitlement,
        default=tuple(name for name, granted in _ENTITLEMENTS.items() if granted),
        value="name",
        key="builder",
    ),
)
FILE_READERS: dict[str, Callable[[object], Value]] = {"builder": _of_file}
