"""Answers DNS queries from the names of containers: a zone for each network, and the view that one container has.

Pure: values in, records out. A `Zone` is one network: names with their addresses, and addresses with their names. A
`View` is what one container sees: the zones of its networks in their order, and its own links. A name that is known in
any of them is answered from here whatever type of record is asked for, and is never forwarded to a server.
"""

import socket

from engine.resolver import packets
from engine.resolver.packets import AAAA, ANY, INTERNET, PTR, A, Query
from engine.wire.schema import Place

_FAMILIES = {A: socket.AF_INET, AAAA: socket.AF_INET6}


class _Entry:
    """One name: the records of each container that has it, by container.

    The records take turns at coming first.
    """

    __slots__ = ("_turn", "owners")

    def __init__(self) -> None:
        self.owners: dict[str, dict[int, bytes]] = {}
        self._turn = 0

    def records(self, kind: int) -> list[bytes]:
        """The records of this type, of all containers that have any."""
        found = [records[each] for records in self.owners.values() for each in records if kind in (each, ANY)]
        if len(found) < 2:
            return found
        self._turn = (self._turn + 1) % len(found)
        return found[self._turn :] + found[: self._turn]


class Zone:
    """The names of one network."""

    def __init__(self) -> None:
        self.plain: dict[bytes, _Entry] = {}
        self.qualified: dict[bytes, _Entry] = {}
        self.reverse: dict[bytes, tuple[str, bytes]] = {}
        self._places: dict[str, Place] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def put(self, container: str, place: Place) -> None:
        """Record that a container has this place, in place of the one that it had."""
        if self._places.get(container) == place:
            return
        self.remove(container)
        self._places[container] = place
        packed = {kind: _packed(family, place.addresses) for kind, family in _FAMILIES.items()}
        records = {kind: packets.record(kind, address) for kind, address in packed.items() if address}
        for plain, name in _keys(place):
            entries = self.plain if plain else self.qualified
            entries.setdefault(name, _Entry()).owners[container] = records
        called = packets.wire_name(f"{place.names[0]}.{place.name}") if place.names else None
        if called:
            answer = container, packets.record(PTR, called)
            self.reverse.update((packets.reverse_name(address), answer) for address in packed.values() if address)

    def remove(self, container: str) -> None:
        """Remove a container, if it is here."""
        place = self._places.pop(container, None)
        if place is None:
            return
        for plain, name in _keys(place):
            entries = self.plain if plain else self.qualified
            entry = entries.get(name)
            if entry is not None:
                entry.owners.pop(container, None)
                if not entry.owners:
                    del entries[name]
        for address in filter(None, (_packed(family, place.addresses) for family in _FAMILIES.values())):
            reverse = packets.reverse_name(address)
            if self.reverse.get(reverse, ("",))[0] == container:  # else another container has the address by now
                del self.reverse[reverse]


class View:
    """What one container sees: for each of its networks the zone, and its links there (alias → name)."""

    def __init__(self, seen: list[tuple[Zone, Place]]) -> None:
        self._zones = [zone for zone, _ in seen]
        self._links = [(zone, links) for zone, place in seen if (links := _links(place))]

    def records(self, query: Query) -> list[bytes] | None:
        """The records that answer the query; None where none of the networks knows the name."""
        if query.group not in (INTERNET, ANY):
            return None
        name = query.name
        for zone, links in self._links:
            entry = zone.plain.get(links.get(name, b""))
            if entry is not None:
                return entry.records(query.kind)
        for zone in self._zones:
            entry = zone.plain.get(name)
            if entry is not None:
                return entry.records(query.kind)
        for zone in self._zones:
            entry = zone.qualified.get(name)
            if entry is not None:
                return entry.records(query.kind)
            pointer = zone.reverse.get(name)
            if pointer is not None:
                return [pointer[1]] if query.kind in (PTR, ANY) else []
        return None


def _keys(place: Place) -> list[tuple[bool, bytes]]:
    """The names of a place as they are asked for: (True, NAME) and (False, NAME.NETWORK)."""
    keys: dict[tuple[bool, bytes], None] = {}
    for name in place.names:
        for plain, text in ((True, name), (False, f"{name}.{place.name}")):
            key = packets.wire_name(text)
            if key:
                keys[plain, key.lower()] = None
    return list(keys)


def _links(place: Place) -> dict[bytes, bytes]:
    """The links of a place by alias. A link that is no name in DNS is left out, since no query can ask for it."""
    found = {}
    for pair in place.links:
        alias, name = (packets.wire_name(each) for each in pair)
        if alias and name:
            found[alias.lower()] = name.lower()
    return found


def _packed(family: int, addresses: tuple[str, ...]) -> bytes:
    """The address of this family, empty for none."""
    text = next((each for each in addresses if (":" in each) == (family == socket.AF_INET6)), "")
    return socket.inet_pton(family, text) if text else b""
