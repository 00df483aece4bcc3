"""The abstract class Sender: a log driver's connection over which a container's lines are sent, one at a time.

Used by the process beside a monitor that forwards the lines (`engine.monitor.forwarder`).
"""

from abc import abstractmethod

Partial = tuple[str, int, bool]
"""Describes a piece of a line: the line's id, the piece's number from 1, whether it is the last."""


class Sender:
    """A connection to where the lines are sent. It is made from the values that the driver's `forward` returned."""

    @abstractmethod
    def fileno(self) -> int:
        """The connection's descriptor."""

    @abstractmethod
    def send(self, stream: int, line: bytes, partial: Partial | None) -> None:
        """Send a line, without its end. A line that cannot be delivered is lost: a logger must not end a container."""
