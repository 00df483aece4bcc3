"""The host paths of a container's files below the data root and the exec root; this makes and opens no file."""

import os

from engine.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Paths:
    """The host paths of one container.

    home holds all the others but exec_dir. upper and work are the overlay's directories (where images are copied, upper
    is the whole root, and work the directory in which it is made). log is the log's directory. etc gives the files that
    are mounted over /etc/hosts, /etc/hostname and /etc/resolv.conf. exec_dir exists only while the container runs.
    """

    home: str
    exec_dir: str

    @property
    def upper(self) -> str:
        return f"{self.home}/upper"

    @property
    def work(self) -> str:
        return f"{self.home}/work"

    @property
    def log(self) -> str:
        return f"{self.home}/log"

    def etc(self, name: str) -> str:
        """The host file behind /etc/`name` in the container."""
        return f"{self.home}/{name}"


def runs(exec_root: str) -> str:
    """The directory with the exec directory of each container that runs."""
    return f"{exec_root}/containers"


def wires(exec_root: str) -> str:
    """The directory with a file for each wire that is to be taken away, see `endpoints.leavings`."""
    return os.path.join(exec_root, "wires")


def lent(exec_root: str) -> str:
    """The directory with a file for each container that plugins have mounted volumes for, see `mounts.borrowing`."""
    return os.path.join(exec_root, "volumes")


def bundle(exec_root: str, container_id: str) -> str:
    """The directory of what another OCI runtime needs for a run of this container; a short one, for its sockets."""
    return os.path.join(exec_root, "runtimes", container_id[:12])


def given(exec_root: str) -> str:
    """The directory of what clients give to the steps of builds that run now."""
    return os.path.join(exec_root, "given")


def of(data_root: str, exec_root: str, container_id: str) -> Paths:
    """The paths of the container with this id."""
    return Paths(f"{data_root}/containers/{container_id}", f"{runs(exec_root)}/{container_id}")
