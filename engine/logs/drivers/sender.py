"""What a driver's `Sender` is: a connection over which a container's lines go, one at a time.

Used by the process beside a monitor that forwards them (`engine.monitor.forwarder`).
"""

from abc import abstractmethod

Partial = tuple[str, int, bool]
"""Of a piece of a line: the line's id, the piece's number from 1, whether it is the last."""


class Sender:
    """A connection to where the lines are to go. It is made from what the driver's `forward` has said."""

    @abstractmethod
    def fileno(self) -> int:
        """The connection's descriptor."""

    @abstractmethod
    def send(self, stream: int, line: bytes, partial: Partial | None) -> None:
        """Send a line, without its end. What cannot be delivered is lost: a logger must not end a container."""
