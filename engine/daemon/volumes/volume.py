"""The value of one volume, as the store keeps it and the API shows it.

Pure data; used in the daemon, on any thread.
"""

from engine.dataclass import dataclass
from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.daemon.jsontext import Object

DRIVER = "local"
ANONYMOUS = "com.docker.volume.anonymous"
"""The label of an anonymous volume, which is one that was created without a name."""


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume.

    labels, options: as the client gave them, None where it gave none
    created_ns: time of creation in ns since the epoch; path: the directory of its contents on the host
    Of a volume that a plugin keeps: path is empty while it is mounted nowhere; created, status: as the plugin tells
    """

    name: str
    driver: str
    labels: dict[str, str] | None
    options: dict[str, str] | None
    created_ns: int
    path: str
    scope: str = "local"
    created: str = ""
    status: "Object | None" = None

    @property
    def remote(self) -> bool:
        """Whether a plugin keeps it."""
        return self.driver != DRIVER

    @property
    def anonymous(self) -> bool:
        """Whether the volume was created without a name."""
        return ANONYMOUS in (self.labels or {})
