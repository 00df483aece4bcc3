"""What a stream of bytes is to its reader, and what a reader hands to a stream. Types alone, open to every room."""

from typing import Protocol


class Source(Protocol):
    """What can be read from: a file, a pipe, the body of a request."""

    def read(self, count: int, /) -> bytes:
        """At most `count` bytes, and none at the end."""


class Buffer(Protocol):
    """The memory that a `readinto` fills (`collections.abc.Buffer` of Python 3.12)."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory, as PEP 688 has it."""
