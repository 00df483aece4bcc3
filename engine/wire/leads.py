"""Packs and unpacks the datagrams between a daemon and the userland proxy: which socket of the host leads where.

Pure. The daemon makes them; `engine.proxy.orders` and `_muxer/proxy/orders.c` read them. They are no messages of the
codec, so that the proxy needs no Python. Each has the same head, and the mark says which it is:

    L + records     daemon → proxy: these sockets of the host lead to this run of a container from now on, beside those
                    that lead there already. Descriptors: one socket for each record, a pidfd of the container's process
                    1. A container's other run ends with it.
    D               daemon → proxy: nothing leads to this container any more (run 0: whichever run it is)
    T               daemon → proxy: tell what leads where: the records of the container with the serial number `number`
                    from the record number `run` on, or else the first ones of the container with the next higher serial
    A               proxy → daemon: the answer to each; `number` is 0 or an errno (T: ENOENT, there are no more)
    L + records     proxy → daemon: the other answer to T, with `number` the serial. Descriptors: the sockets alone.
    G               proxy → daemon: the greeting; `number` is the proxy's pid

A version that changes any of this has another FORM. A process that meets another form does not understand it.
"""

import socket
import struct
from collections.abc import Sequence

from engine.dataclass import dataclass

LEADS, DROPS, TELLS, ANSWERS, GREETS = b"L", b"D", b"T", b"A", b"G"
FORM = 1
MOST = 64
"""The most records of one datagram."""
_HEAD = struct.Struct("=cBHIQ64s")
_RECORD = struct.Struct("=BBH16s")
HEAD_SIZE, RECORD_SIZE = _HEAD.size, _RECORD.size
LARGEST = HEAD_SIZE + MOST * RECORD_SIZE
"""The size of the longest datagram, in bytes."""
PROTOCOLS = {"tcp": 6, "udp": 17}
"""What the proxy speaks, with the numbers of the Internet protocols."""
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_LENGTHS = {4: 4, 6: 16}


class Unserved(ValueError):
    """A datagram about a socket that no proxy can serve."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Where one socket of the host leads to. protocol: `tcp` or `udp`; address: the container's, without a zone"""

    protocol: str
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Word:
    """One datagram.

    container: its id, up to 64 bytes of ASCII; run: the start time of its process 1; number: see above
    """

    mark: bytes
    container: str = ""
    run: int = 0
    number: int = 0
    leads: tuple[Lead, ...] = ()


def pack(word: Word) -> bytes:
    """The datagram."""
    head = _HEAD.pack(word.mark, FORM, len(word.leads), word.number, word.run, word.container.encode("latin-1"))
    return head + b"".join(map(_record, word.leads))


def _record(lead: Lead) -> bytes:
    version = 6 if ":" in lead.address else 4
    packed = socket.inet_pton(_FAMILIES[version], lead.address)
    return _RECORD.pack(PROTOCOLS[lead.protocol], version, lead.port, packed)


def unpack(datagram: bytes) -> Word:
    """What a datagram says. Raises ValueError for one of another form, or that is none of these; Unserved."""
    if len(datagram) < HEAD_SIZE:
        raise ValueError("a datagram about published ports is truncated")
    mark, form, count, number, run, container = _HEAD.unpack_from(datagram)
    if form != FORM or count > MOST or len(datagram) != HEAD_SIZE + count * RECORD_SIZE:
        raise ValueError("not a datagram about published ports")
    places = range(HEAD_SIZE, len(datagram), RECORD_SIZE) if mark == LEADS else ()
    leads = tuple(_lead(*_RECORD.unpack_from(datagram, place)) for place in places)
    return Word(mark, container.rstrip(b"\0").decode("latin-1"), run, number, leads)


def _lead(protocol: int, version: int, port: int, address: bytes) -> Lead:
    known = {number: name for name, number in PROTOCOLS.items()}
    if protocol not in known or version not in _FAMILIES:
        raise Unserved("not a socket that the proxy can serve")
    return Lead(known[protocol], socket.inet_ntop(_FAMILIES[version], address[: _LENGTHS[version]]), port)


def batches(leads: Sequence[Lead]) -> list[tuple[Lead, ...]]:
    """The leads in as many parts as they need datagrams."""
    return [tuple(leads[at : at + MOST]) for at in range(0, len(leads), MOST)]
