"""Translates the root whose processes get the capabilities of a file, between user namespaces (capabilities(7)).

Pure. The attribute security.capability of version 3 names that root by its uid; one of version 2 means the root of the
namespace in which it is read. The kernel translates what a process in the namespace sets and gets, and nothing for the
daemon, which is in the host's.
"""

import struct

from engine.kernel.idmaps import Ids

NAME = "security.capability"
_VERSION_2, _VERSION_3 = 0x02000000, 0x03000000  # linux/capability.h
_VERSIONS = 0xFF000000
_PLAIN, _ROOTED = struct.Struct("<I16s"), struct.Struct("<I16sI")
_NOBODY = 0xFFFFFFFF


def outside(value: bytes, ids: Ids) -> bytes:
    """The attribute as a process outside of the namespace sets it. Raises Invalid for a root that is not mapped."""
    if len(value) == _PLAIN.size:
        (magic, masks), root = _PLAIN.unpack(value), 0
    elif len(value) == _ROOTED.size:
        magic, masks, root = _ROOTED.unpack(value)
    else:
        return value
    return _ROOTED.pack(magic & ~_VERSIONS | _VERSION_3, masks, ids.outside(root, 0)[0])


def inside(value: bytes, ids: Ids) -> bytes:
    """The attribute as a process in the namespace gets it; empty for one of a root that is not mapped."""
    if len(value) != _ROOTED.size:
        return value
    magic, masks, root = _ROOTED.unpack(value)
    found = next((start + root - first for start, first, count in ids.users if first <= root < first + count), _NOBODY)
    if found == _NOBODY:
        return b""
    if found:
        return _ROOTED.pack(magic, masks, found)
    return _PLAIN.pack(magic & ~_VERSIONS | _VERSION_2, masks)
