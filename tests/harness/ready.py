"""Whether there is something to read, by poll(2): a worker of a long run has more descriptors than select(2) takes."""

import select
from typing import Protocol


class HasDescriptor(Protocol):
    """A socket, and whatever else has a descriptor."""

    def fileno(self) -> int:
        """Its number."""


def ready(source: int | HasDescriptor, seconds: float = 0) -> bool:
    """Whether it can be read from, or has come to its end, within that time."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
