"""The table of engines to compare (this engine, dockerd, podman), and how each is started with roots of its own.

Run in the benchmarks' process. An engine gets a directory for all that it writes, and namespaces of its own
(`isolation`). It is given the image and nothing else. When its `Daemon` is closed, the engine and all that it made are
gone.
"""

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import image
from bench.client import Connection, UnexpectedAnswer
from bench.isolation import Isolated

PROJECT = Path(__file__).parent.parent
START_SECONDS = 30
REGISTRY = "127.0.0.1:5000"
RUN = "/run/bench"


@dataclass(frozen=True, slots=True)
class Launch:
    """How an engine is started: its command, its environment, and the directories of the machine that are hidden from
    it.
    """

    argv: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ("/run",)


@dataclass(frozen=True, slots=True)
class Peer:
    """An engine with an API: the programs that it needs, and its start below a directory on a socket.

    whole_log: settings for its HostConfig with which it keeps a long log whole; own_log: those with which it writes its
    log in a form of its own; json_log: those with which it keeps a whole log of JSON lines; empty: it cannot
    """

    name: str
    programs: tuple[str, ...]
    launch: Callable[[Path, Path], Launch]
    whole_log: dict[str, object] = field(default_factory=dict)
    own_log: dict[str, object] = field(default_factory=dict)
    json_log: dict[str, object] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The programs that are needed and not installed."""
        return [program for program in self.programs if shutil.which(program) is None]


def _engine(directory: Path, socket: Path) -> Launch:
    argv = [sys.executable, "-m", "engine", "daemon", "--host", f"unix://{socket}", *_roots(directory)]
    return Launch([*argv, "--insecure-registry", REGISTRY])


def _roots(directory: Path) -> list[str]:
    """Where dockerd, and this engine, write. What only a run needs is in the small file system that hides the machine's
    /run, as on any host.
    """
    return ["--data-root", str(directory / "data"), "--exec-root", f"{RUN}/exec", "--pidfile", str(directory / "pid")]


def _without_c(directory: Path, socket: Path) -> Launch:
    launch = _engine(directory, socket)
    return replace(launch, argv=[*launch.argv, "--muxer", "python"])


def _dockerd(directory: Path, socket: Path) -> Launch:
    return Launch(["dockerd", "--host", f"unix://{socket}", *_roots(directory)])


# crun is the faster of podman's runtimes; a host without CAP_SYS_RESOURCE can set these limits.
_CONTAINERS_CONF = """
[engine]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile=1000:1000", "nproc=1000:1000"]
"""

_REGISTRIES_CONF = f"""
[[registry]]
location = "{REGISTRY}"
insecure = true
"""


def _podman(directory: Path, socket: Path) -> Launch:
    files = {"CONTAINERS_CONF": _CONTAINERS_CONF, "CONTAINERS_REGISTRIES_CONF": _REGISTRIES_CONF}
    for name, text in files.items():
        (directory / name).write_text(text)
    roots = ["--root", str(directory / "data"), "--runroot", f"{RUN}/podman", "--storage-driver", "overlay"]
    return Launch(
        ["podman", *roots, "system", "service", "--time=0", f"unix://{socket}"],
        # podman leaves temporary files of imports behind, by default in /var/tmp.
        {**{name: str(directory / name) for name in files}, "TMPDIR": str(directory)},
        ("/run", "/var/lib/cni", "/var/lib/containers", "/etc/cni/net.d"),
    )


_WHOLE_LOG: dict[str, object] = {"LogConfig": {"Type": "local", "Config": {"max-size": "4g"}}}
_OWN_LOG: dict[str, object] = {"LogConfig": {"Type": "local", "Config": {}}}
_JSON_LOG: dict[str, object] = {"LogConfig": {"Type": "json-file", "Config": {"max-size": "4g"}}}
PURE = Peer("engine", (), _without_c, _WHOLE_LOG, _OWN_LOG, _JSON_LOG)
"""This engine without its C part; it is no column of its own."""

PEERS = (
    Peer("engine", (), _engine, _WHOLE_LOG, _OWN_LOG, _JSON_LOG),
    Peer("dockerd", ("dockerd", "containerd", "iptables"), _dockerd, json_log=_JSON_LOG),
    Peer("podman", ("podman", "crun", "conmon"), _podman),
)

BY_NAME = {peer.name: peer for peer in PEERS}


class Daemon:
    """A running engine, new and empty: the constructor starts it, `close` removes it.

    `seconds` is the time from the program's start to its first answer. Raises OSError when it does not start.
    """

    def __init__(self, peer: Peer, directory: Path) -> None:
        self.peer = peer
        self.directory = directory
        directory.mkdir(parents=True)
        # A socket's path has at most 107 bytes, so its name is short.
        self.socket = directory / "s"
        launch = peer.launch(directory, self.socket)
        self.isolated = Isolated(launch.argv, directory / "log", launch.environment, launch.hidden, directory=PROJECT)
        started = time.perf_counter()
        try:
            self._await(started)
            with self.connect() as connection:
                version = connection.call("GET", "/version").json()
        except BaseException:
            self.close()
            raise
        self.version: str = version["Version"]
        self.prefix = f"/v{version['ApiVersion']}"

    def _await(self, started: float) -> None:
        while time.perf_counter() - started < START_SECONDS:
            try:
                with Connection(self.socket) as connection:
                    connection.call("GET", "/_ping")
            except (FileNotFoundError, ConnectionError, EOFError, UnexpectedAnswer):
                if self.isolated.ended:
                    break
                time.sleep(0.001)
            else:
                self.seconds = time.perf_counter() - started
                return
        raise OSError(f"{self.peer.name} does not answer: {self.isolated.tail()}")

    def connect(self) -> Connection:
        """A new connection to the engine, for one thread."""
        return Connection(self.socket, getattr(self, "prefix", ""))

    def give_image(self, packed: Path) -> None:
        """Import the root filesystem `packed` under the small image's name."""
        repository, _, tag = image.NAME.partition(":")
        with self.connect() as connection:
            target = f"/images/create?fromSrc=-&repo={repository}&tag={tag}"
            connection.call("POST", target, packed.read_bytes(), headers={"Content-Type": "application/x-tar"})

    def close(self) -> None:
        """End the engine and its containers, and remove the files that it wrote."""
        self.isolated.close()
        # The pull case can leave a file tree without write permission, which rmtree as root can remove.
        shutil.rmtree(self.directory)


NewDaemon = Callable[[Peer], Daemon]
"""A function that starts a new engine; its caller must close the engine."""
