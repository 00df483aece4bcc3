"""What a build has used: images, files of servers and repositories, directories, secrets and agents of its client.

Belongs to one build; any of its threads may add to it. What comes twice counts once.
"""

import threading
from collections.abc import Mapping

from engine.daemon.buildkit.messages import ops
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UsedImage:
    """An image. digest: of its index or manifest; local: it comes from a layout of the client's"""

    reference: Reference
    platform: Platform | None
    digest: str
    local: bool = False


@dataclass(frozen=True, slots=True)
class UsedFile:
    """A file of a server, `sha256:...`, or a repository with its commit. digest: `sha256:...`, `sha1:...`"""

    url: str
    digest: str


class Captured:
    """All of it. started_ns: when the build began, since the epoch"""

    def __init__(self, started_ns: int) -> None:
        self.started_ns = started_ns
        self._lock = threading.Lock()
        self._images: dict[UsedImage, None] = {}
        self._files: dict[UsedFile, None] = {}
        self._locals: dict[str, None] = {}
        self._secrets: dict[str, None] = {}
        self._agents: dict[str, None] = {}
        self._source: tuple[str, bytes] | None = None
        self._request: tuple[str, Mapping[str, str]] = "", {}
        self._graphs: dict[tuple[str, int], ops.Definition] = {}

    def requested(self, frontend: str, options: Mapping[str, str]) -> None:
        """The client has asked this of a frontend, whose name it is."""
        with self._lock:
            self._request = frontend, options

    def image(self, used: UsedImage) -> None:
        """The build stands on the image, or copies of it."""
        with self._lock:
            self._images[used] = None

    def file(self, used: UsedFile) -> None:
        """The build has fetched this."""
        with self._lock:
            self._files[used] = None

    def local(self, name: str) -> None:
        """The client has sent the directory that it calls so."""
        with self._lock:
            self._locals[name] = None

    def secret(self, id: str) -> None:
        """A step was given the secret, or would have been had the client one."""
        with self._lock:
            self._secrets[id] = None

    def agent(self, id: str) -> None:
        """The same of the client's agent of SSH."""
        with self._lock:
            self._agents[id] = None

    def dockerfile(self, name: str, text: bytes) -> None:
        """The file that says what is built."""
        with self._lock:
            self._source = name, text

    def graph(self, key: str, index: int, definition: ops.Definition) -> None:
        """The client has given this graph, whose result is an output of the node of this key."""
        with self._lock:
            self._graphs[key, index] = definition

    def graphs(self) -> dict[tuple[str, int], ops.Definition]:
        """The graphs that the client has given, by the key of a node and the number of its output."""
        with self._lock:
            return dict(self._graphs)

    def images(self) -> list[UsedImage]:
        """The images, in the order of their names."""
        with self._lock:
            return sorted(self._images, key=lambda used: (used.reference.canonical, str(used.platform), used.digest))

    def files(self) -> list[UsedFile]:
        """The files and repositories, in the order of their URLs."""
        with self._lock:
            return sorted(self._files, key=lambda used: (used.url, used.digest))

    def locals(self) -> list[str]:
        """The names of the client's directories."""
        with self._lock:
            return sorted(self._locals)

    def secrets(self) -> list[str]:
        """The ids of the secrets."""
        with self._lock:
            return sorted(self._secrets)

    def agents(self) -> list[str]:
        """The ids of the agents."""
        with self._lock:
            return sorted(self._agents)

    def request(self) -> tuple[str, Mapping[str, str]]:
        """The name of the frontend and its options; empty where the client has none."""
        with self._lock:
            return self._request

    def source(self) -> tuple[str, bytes] | None:
        """The Dockerfile's name and text, where there is one."""
        with self._lock:
            return self._source
