"""Packs a sandbox into an opaque part of a message and unpacks it: only init unpacks it, the others pass it on.

Pure. The daemon packs, and the child that becomes the container unpacks. The fields go by position and with `marshal`,
because every object that is built after a fork costs time and copied pages (a third of what JSON takes). Both ends are
the same version of the engine, since a sandbox never outlives the daemon that made it.
"""

import marshal

from engine.dataclass import fields
from engine.errors import Invalid
from engine.sandbox.spec import Device, Hook, Mount, Rlimit, Root, Sandbox
from engine.wire.codec import form

_FIELDS: dict[type, tuple[str, ...]] = {
    each: tuple(field.name for field in fields(each)) for each in (Sandbox, Root, Mount, Device, Rlimit, Hook)
}
_LISTS: dict[str, type] = {"mounts": Mount, "devices": Device, "rlimits": Rlimit, "hooks": Hook}
_PLACES = {_FIELDS[Sandbox].index(name): kind for name, kind in _LISTS.items()}
_ROOT = _FIELDS[Sandbox].index("root")
_FORM = "".join(map(form, _FIELDS))


def pack(sandbox: Sandbox) -> bytes:
    """The sandbox as bytes."""
    values = list(_values(sandbox))
    values[_ROOT] = _values(sandbox.root)
    for place, name in zip(_PLACES, _LISTS, strict=True):
        values[place] = tuple(map(_values, getattr(sandbox, name)))
    return marshal.dumps([*values, _FORM])


def unpack(data: bytes) -> Sandbox:
    """The sandbox that was packed. Raises Invalid for one that another version of the engine has packed."""
    *values, packed_as = marshal.loads(data)
    if packed_as != _FORM:
        raise Invalid("another version of the engine asks for this container: restart the daemon")
    values[_ROOT] = Root(*values[_ROOT])
    for place, kind in _PLACES.items():
        values[place] = tuple(kind(*each) for each in values[place])
    return Sandbox(*values)


def _values(value: Sandbox | Root | Mount | Device | Rlimit | Hook) -> tuple[object, ...]:
    return tuple(getattr(value, name) for name in _FIELDS[type(value)])
