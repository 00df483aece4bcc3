"""What a log driver is to the daemon: a module with the functions of `Driver`, one file each in this folder.

Pure; called by the daemon's request threads, through `engine.daemon.containers.output.logconfig`. A driver that sends
its lines elsewhere has a `Sender` as well (see `sender`), which runs beside the monitor.
"""

from engine.annotating import Protocol
from engine.logs.attributes import Described
from engine.logs.target import Config, LogTarget, Place


class Driver(Protocol):
    """One driver."""

    @property
    def OPTIONS(self) -> frozenset[str] | None:
        """The names of its own options, beside those that all drivers have; None: it ignores every option."""

    @property
    def UNKNOWN(self) -> str:
        """dockerd's words for an option that it does not have, whose name stands in the place of `%s`."""

    def check(self, config: Config, /) -> None:
        """Raise Invalid in dockerd's words for a value that create refuses; NotBuilt for what this engine lacks."""

    def target(self, config: Config, described: Described, place: Place, /) -> LogTarget:
        """Where the output of one run goes. Raises Invalid in dockerd's words for a value that a start refuses."""

    def form(self, config: Config, /) -> str:
        """What a reader finds: FRAMES, LINES or NOTHING. Raises Invalid."""

    def file(self, container_id: str, /) -> str:
        """The name in the container's directory of the file that inspect shows as LogPath; empty: it shows none."""

    def details(self, config: Config, described: Described, /) -> dict[str, str]:
        """What `logs --details` shows before each line. Raises Invalid for a bad pattern."""
