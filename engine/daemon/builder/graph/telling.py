"""What an operation tells of itself while it is made, to whoever shows the build.

The thread that makes the operation calls it.
"""

from collections.abc import Callable

from engine.daemon.jsontext import Object


class Telling:
    """Is told what happens in one node of the graph. By itself it drops that: for a node that nobody watches."""

    def cached(self) -> None:
        """The node need not be made."""

    def command(self, data: bytes, error: bool) -> None:
        """What a command has written. error: to its standard error"""

    def command_ended(self) -> None:
        """The command has written all."""

    def note(self, text: str) -> None:
        """A remark that ends with its line."""

    def line(self, line: Object) -> None:
        """The progress of a pull, as its own client would be told."""

    def downloading(self, status: str, identity: str = "") -> Callable[[int, int], None]:
        """A function that takes a download's progress: bytes so far, and in all or -1."""
        return lambda _current, _total: None

    def downloaded(self) -> None:
        """The last download has ended."""

    def running(self, container: str) -> None:
        """A container runs the node's command."""

    def removed(self, container: str) -> None:
        """That container is gone."""
