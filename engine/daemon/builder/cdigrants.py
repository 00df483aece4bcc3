"""Which CDI devices a command of a build gets: those it names that the client or the administrator grants.

Runs on a thread that builds. The build's client grants by entitlements (`--allow device`, `--allow device=NAME`, and
`device=NAME,alias=OTHER` for another device in the place of one that a Dockerfile names). The administrator grants by
annotations in the CDI files. Source: buildkit, solver/llbsolver/vertex.go, and solver/llbsolver/cdidevices.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from engine.daemon.dockerfile import devices
from engine.daemon.dockerfile.devices import Device
from engine.errors import Forbidden, Invalid, NotFound
from engine.late import TYPE_CHECKING, late
from engine.literals import BOOLEANS

if TYPE_CHECKING:  # loaded by the first command that asks for a device
    from engine.daemon.containers.security import cdispecs
    from engine.daemon.containers.security.cdispecs import Described
else:
    cdispecs = late("engine.daemon.containers.security.cdispecs")

ENTITLEMENT = "device"
_CLASS = "org.mobyproject.buildkit.device.class"
_GRANTED = "org.mobyproject.buildkit.device.autoallow"


def given(directories: Sequence[str], asked: Sequence[Device], allowed: Collection[str] | None) -> list[str]:
    """The whole names of the devices that a command gets.

    directories: of the CDI files; asked: by the command; allowed: entitlements of the build, None where it needs none
    Raises NotFound for a device that is required and not there, Forbidden for one that nobody grants.
    """
    known, _ = cdispecs.found(directories)
    if allowed is None or ENTITLEMENT in allowed:
        return _found(known, asked)
    granted = dict(map(_granted, allowed_names(allowed)))
    others = [Device(granted[each.name], True) for each in asked if granted.get(each.name)]
    named = _found(known, [each for each in asked if not granted.get(each.name)])
    itself = [Device(name, True) for name, other in granted.items() if not other]
    free = set(_found(known, itself)) if named else set()
    forbidden = [name for name in named if name not in free and not _is_free(known[name])]
    if forbidden:
        many, are = ("s", "are") if len(forbidden) > 1 else ("", "is")
        raise Forbidden(f"device{many} {', '.join(forbidden)} {are} requested by the build but not allowed")
    return list(dict.fromkeys([*_found(known, others), *named]))


def allowed_names(allowed: Iterable[str]) -> list[str]:
    """What stands after `device=` in entitlements."""
    parts = [each.partition("=") for each in allowed]
    return [value for name, equals, value in parts if equals and name == ENTITLEMENT]


def check(value: str) -> None:
    """Raise Invalid, in BuildKit's words, for what cannot stand after `device=` in an entitlement."""
    _granted(value)


def listed(directories: Sequence[str]) -> Iterator[tuple[str, bool, Mapping[str, str]]]:
    """Each device that a command may ask for: its whole name, whether each build gets it, and its annotations."""
    if any(map(os.path.isdir, directories)):
        known, _ = cdispecs.found(directories)
        for name, device in sorted(known.items()):
            yield name, _is_free(device), device.annotations


def _is_free(device: "Described") -> bool:
    """Whether the administrator gives it to each build."""
    return BOOLEANS.get(device.annotations.get(_GRANTED, ""), False)


def _granted(value: str) -> tuple[str, str]:
    """The device that is granted by that name in the build, and the one in its place, empty for itself."""
    name, *others = devices.fields(value)
    alias = ""
    for field in others:
        key, equals, text = field.partition("=")
        if not equals:
            raise Invalid(f'invalid device config "{field}"')
        if key != "alias":
            raise Invalid(f'unknown device config key "{key}"')
        alias = text
    return (alias, name) if alias else (name, "")


def _found(known: "Mapping[str, Described]", asked: Iterable[Device]) -> list[str]:
    """The whole names of the devices, each once. Raises NotFound."""
    names: list[str] = []
    for each in asked:
        found = _matching(known, each.name)
        if not found and each.required:
            raise NotFound(f'required device "{each.name}" is not registered')
        names += found
    return list(dict.fromkeys(names))


def _matching(known: "Mapping[str, Described]", name: str) -> list[str]:
    """One by its whole name, the first or all (`*`) of a kind; else those whose annotation names that class."""
    kind, _, own = name.partition("=")
    of_kind = [whole for whole in sorted(known) if whole.startswith(f"{kind}=")]
    found = [whole for whole in of_kind if own in ("", "*") or whole == name]
    if found:
        return found if own else found[:1]
    return [whole for whole in sorted(known) if known[whole].annotations.get(_CLASS) == name]
