"""Where a container's files are, below the data root and the exec root; nothing is made or opened here."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paths:
    """The host paths of one container.

    home holds all of it; upper and work are the overlay's (where images are copied, upper is the whole root, and work
    what it is made in); log is the log's directory; etc holds what is mounted over /etc/hosts, /etc/hostname and
    /etc/resolv.conf; exec_dir lives only while the container runs
    """

    home: str
    exec_dir: str

    @property
    def upper(self) -> str:
        return os.path.join(self.home, "upper")

    @property
    def work(self) -> str:
        return os.path.join(self.home, "work")

    @property
    def log(self) -> str:
        return os.path.join(self.home, "log")

    def etc(self, name: str) -> str:
        """The host file behind /etc/`name` in the container."""
        return os.path.join(self.home, name)


def wires(exec_root: str) -> str:
    """The directory that names the wires which are to go, see `endpoints.leavings`."""
    return os.path.join(exec_root, "wires")


def of(data_root: str, exec_root: str, container_id: str) -> Paths:
    """The paths of the container with this id."""
    return Paths(
        os.path.join(data_root, "containers", container_id), os.path.join(exec_root, "containers", container_id)
    )
