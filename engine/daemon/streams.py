"""Protocol types for a readable byte stream (`Source`) and for the buffer that a `readinto` fills; types alone, for
every package.
"""

from engine.annotating import Protocol


class Source(Protocol):
    """An object that can be read from: a file, a pipe, the body of a request."""

    def read(self, count: int, /) -> bytes:
        """At most `count` bytes; empty at the end."""


class Buffer(Protocol):
    """The memory that a `readinto` fills (`collections.abc.Buffer` of Python 3.12)."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory itself, by the buffer protocol of PEP 688."""
