"""The abstract class Sender: a log driver's connection over which a container's lines are sent, one at a time.

Used by the process beside a monitor that forwards the lines (`engine.monitor.forwarder`).
"""

from abc import abstractmethod

Partial = tuple[str, int, bool]
"""Describes a piece of a line: the line's id, the piece's number from 1, whether it is the last."""


class Sender:
    """A connection to where the lines are sent. It is made from the values that the driver's `forward` returned.

    It is made in the monitor's launcher, which forks the process that uses it. So it must not begin a thread before
    `begin` is called.
    """

    @abstractmethod
    def fileno(self) -> int:
        """The connection's descriptor; -1 where there is none (yet)."""

    @abstractmethod
    def send(self, stream: int, line: bytes, partial: Partial | None, time_ns: int) -> None:
        """Send a line, without its end. A line that cannot be delivered is lost: a logger must not end a container.

        time_ns: when it came, in ns since the epoch; the pieces of a line have the time of the first
        """

    def begin(self) -> None:
        """Begin the threads that it needs, in the process that sends."""

    def end(self) -> None:
        """Send what still waits; called once, after the container's last line. The caller bounds the time."""
