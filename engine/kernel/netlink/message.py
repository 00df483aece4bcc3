"""Netlink messages as bytes: the header, and the kernel's acknowledgement.

Pure: values in, bytes out and back; it touches no descriptor. Layout: linux/netlink.h, host byte order.
"""

import struct

REQUEST = 0x1
ACKNOWLEDGE = 0x4
ERROR = 2
_HEADER = struct.Struct("=IHHII")
_ERROR = struct.Struct("=i")


def encode(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    """One message: struct nlmsghdr and its payload (whose length the caller keeps a multiple of 4)."""
    return _HEADER.pack(_HEADER.size + len(payload), kind, flags, sequence, 0) + payload


def acknowledged(datagram: bytes, sequence: int) -> int | None:
    """The errno that the kernel answers the request with, 0 for success; None where this is no answer to it."""
    at = 0
    while at + _HEADER.size <= len(datagram):
        length, kind, _, number, _ = _HEADER.unpack_from(datagram, at)
        if length < _HEADER.size:
            raise ValueError(f"a netlink message of {length} bytes")
        if kind == ERROR and number == sequence and length >= _HEADER.size + _ERROR.size:
            return -_ERROR.unpack_from(datagram, at + _HEADER.size)[0]
        at += (length + 3) & ~3
    return None
