"""Reads a file of bbolt, the key-value store in which dockerd and containerd keep their records.

Pure but for the one look at the file. Nothing is ever written. The file is a stranger's: each page is looked at once at
most, a place outside the file is refused, and so is a tree that is too deep. The format is that of bbolt's `page.go`
and `bucket.go`, version 2: a B+ tree of pages for each bucket, where a small bucket stands inside its parent's page.
"""

import mmap
import os
import struct
from collections.abc import Iterator

from engine.errors import Invalid

MOST_BYTES = 1 << 32
"""The largest file that is read."""

_HEADER = struct.Struct("<QHHI")  # number of the page, flags, count of elements, number of further pages
_META = struct.Struct(
    "<IIIIQQQQQQ"
)  # magic, version, page size, flags; root, sequence, free list, pages, transaction, sum
_BRANCH = struct.Struct("<IIQ")  # place of the key, its length, number of the page
_LEAF = struct.Struct("<IIII")  # flags, place of the key, lengths of key and value
_BUCKET = struct.Struct("<QQ")  # number of the root page, 0 for a bucket inside its value; sequence
_MAGIC, _VERSION = 0xED0CDAED, 2
_IS_BRANCH, _IS_LEAF, _IS_META = 1, 2, 4
_IS_BUCKET = 1
_SMALLEST_PAGE, _LARGEST_PAGE = 512, 1 << 16
_DEEPEST = 64
_FNV_START, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3

_BROKEN = "it is no whole file of bbolt"


class Bucket:
    """One bucket: keys with their values, and buckets by their names. Raises Invalid where the file is damaged."""

    def __init__(self, file: "Bolt", root: int, inside: memoryview | None) -> None:
        self._file = file
        self._root = root
        self._inside = inside

    def values(self) -> Iterator[tuple[bytes, bytes]]:
        """Every key that is no bucket, with its value, in the order of the keys."""
        for flags, key, value in self._elements():
            if not flags & _IS_BUCKET:
                yield bytes(key), bytes(value)

    def buckets(self) -> Iterator[tuple[bytes, "Bucket"]]:
        """Every bucket in this one, with its name."""
        for flags, key, value in self._elements():
            if flags & _IS_BUCKET:
                yield bytes(key), self._file.bucket(value)

    def get(self, name: bytes) -> bytes | None:
        """The value of a key; None where there is none."""
        return next((value for key, value in self.values() if key == name), None)

    def bucket(self, *names: bytes) -> "Bucket | None":
        """The bucket at the end of this path of names; None where there is none."""
        found: Bucket | None = self
        for name in names:
            assert found is not None  # left by the break below
            found = next((bucket for key, bucket in found.buckets() if key == name), None)
            if found is None:
                break
        return found

    def _elements(self) -> Iterator[tuple[int, memoryview, memoryview]]:
        if self._inside is not None:
            yield from _leaves(self._inside)
            return
        seen: set[int] = set()
        waiting = [(self._root, 0)]
        while waiting:
            number, depth = waiting.pop()
            if number in seen or depth > _DEEPEST:
                raise Invalid(_BROKEN)
            seen.add(number)
            page, flags = self._file.page(number)
            if flags & _IS_LEAF:
                yield from _leaves(page)
            elif flags & _IS_BRANCH:
                waiting += [(below, depth + 1) for below in reversed(_below(page))]
            else:
                raise Invalid(_BROKEN)


class Bolt:
    """An open file. `root` holds the outermost buckets."""

    def __init__(self, descriptor: int) -> None:
        """descriptor: of the file, open for reading; it stays the caller's. Raises Invalid, OSError."""
        size = os.fstat(descriptor).st_size
        if not _SMALLEST_PAGE * 2 <= size <= MOST_BYTES:
            raise Invalid(_BROKEN)
        # The map goes with the last view of it, whoever has that.
        self._data = memoryview(mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ))
        self._size, root = self._newest()
        self.root = Bucket(self, root, None)

    def _newest(self) -> tuple[int, int]:
        """(size of a page, number of the root page) of the newer one of the two whole records of the file."""
        found = [self._meta(0)]
        # The second record is one page further. Where the first is torn, the size of a page is not known.
        sizes = [found[0][1]] if found[0] else [1 << power for power in range(9, 17)]
        found += [meta for size in sizes if (meta := self._meta(size)) is not None and meta[1] == size]
        whole = [meta for meta in found if meta is not None]
        if not whole:
            raise Invalid(_BROKEN)
        _, size, root = max(whole)
        return size, root

    def _meta(self, place: int) -> tuple[int, int, int] | None:
        """(transaction, page size, root) of the record in the page at this place; None for none that is whole."""
        end = place + _HEADER.size + _META.size
        if end > len(self._data):
            return None
        _, flags, _, _ = _HEADER.unpack_from(self._data, place)
        magic, version, size, _, root, _, _, _, transaction, checksum = _META.unpack_from(
            self._data, place + _HEADER.size
        )
        checked = self._data[place + _HEADER.size : end - 8]
        if not flags & _IS_META or (magic, version) != (_MAGIC, _VERSION) or _fnv(checked) != checksum:
            return None
        if not _SMALLEST_PAGE <= size <= _LARGEST_PAGE:
            return None
        return transaction, size, root

    def page(self, number: int) -> tuple[memoryview, int]:
        """The bytes of a page, with the pages that it flows over into, and its flags. Raises Invalid."""
        start = number * self._size
        if start + self._size > len(self._data):
            raise Invalid(_BROKEN)
        told, flags, _, over = _HEADER.unpack_from(self._data, start)
        end = start + (over + 1) * self._size
        if told != number or end > len(self._data):
            raise Invalid(_BROKEN)
        return self._data[start:end], flags

    def bucket(self, value: memoryview) -> Bucket:
        """The bucket that a leaf's value describes. Raises Invalid."""
        if len(value) < _BUCKET.size:
            raise Invalid(_BROKEN)
        root, _ = _BUCKET.unpack_from(value)
        return Bucket(self, root, None if root else value[_BUCKET.size :])


def _fnv(data: memoryview) -> int:
    """FNV-1a of 64 bits."""
    found = _FNV_START
    for byte in data:
        found = (found ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return found


def _count(page: memoryview, size: int) -> int:
    if len(page) < _HEADER.size:
        raise Invalid(_BROKEN)
    count: int = _HEADER.unpack_from(page)[2]
    if _HEADER.size + count * size > len(page):
        raise Invalid(_BROKEN)
    return count


def _below(page: memoryview) -> list[int]:
    places = range(_HEADER.size, _HEADER.size + _count(page, _BRANCH.size) * _BRANCH.size, _BRANCH.size)
    return [_BRANCH.unpack_from(page, place)[2] for place in places]


def _leaves(page: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """(flags, key, value) of each element of a leaf page."""
    for number in range(_count(page, _LEAF.size)):
        place = _HEADER.size + number * _LEAF.size
        flags, start, key, value = _LEAF.unpack_from(page, place)
        start += place
        if start + key + value > len(page):
            raise Invalid(_BROKEN)
        yield flags, page[start : start + key], page[start + key : start + key + value]
