"""Declares the messages of the daemon, the spawner, the monitors and the resolver: one frozen dataclass for each.

Pure data. The order of descriptors that come with a message is part of its contract and stands in its docstring. A new
field always has a default, so that a daemon can adopt the monitors of an older one.
"""

from engine.dataclass import dataclass
from engine.logs.target import Forward, LogTarget  # noqa: F401  (the codec finds each class of a message here)


@dataclass(frozen=True, slots=True)
class Client:
    """How an attached client is served.

    streams: sum of 1 (its bytes go to stdin), 2 (it gets stdout), 4 (it gets stderr)
    framed: output carries the 8-byte header (no terminal)
    detach: the key sequence that detaches it; empty: none
    replay: it first gets everything in the log so far
    head: what it is sent first of all, the head of the answer to its request, if the daemon has not sent that
    """

    streams: int
    framed: bool
    detach: bytes = b""
    replay: bool = False
    head: bytes = b""


@dataclass(frozen=True, slots=True)
class Start:
    """daemon → spawner: make this container. Descriptors: the monitor's end of its link, then one socket for each
    client.

    sandbox: the sandbox as `wire.packed` makes it; own_pids: it has a PID namespace of its own, which the monitor makes
    pids: (pid, start time) of the process whose PID namespace it gets instead, which the monitor enters; else empty
    """

    sandbox: bytes
    exec_dir: str
    log: LogTarget
    own_pids: bool = True
    pids: tuple[int, ...] = ()
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    clients: tuple[Client, ...] = ()


@dataclass(frozen=True, slots=True)
class Exec:
    """daemon → spawner: run one more process in a running container.

    Descriptors: the monitor's end of its link, a pidfd of the container's process 1, then one socket for each client.

    process: a sandbox as `wire.packed` makes it, of which `join` uses only the parts that concern a process
    pid: process 1, for kernels whose setns(2) takes no pidfd
    traced: some process in the PID namespace may trace others (CAP_SYS_PTRACE), so it must find nothing of the engine
        in the new process
    """

    process: bytes
    pid: int
    tty: bool = False
    stdin: bool = False
    clients: tuple[Client, ...] = ()
    traced: bool = False


@dataclass(frozen=True, slots=True)
class NamespacesReady:
    """monitor → daemon: process 1 waits in its namespaces for cgroup and network (pid and start time on the host)."""

    pid: int
    pid_start: int


@dataclass(frozen=True, slots=True)
class Proceed:
    """daemon → monitor: cgroup and network are in place."""


@dataclass(frozen=True, slots=True)
class Started:
    """monitor → daemon: execve worked; also the greeting to a daemon that connects later.

    started_ns: since the epoch; warnings: what was asked for and this host could not provide
    keeps_waiters: the monitor understands what a daemon says of waiting clients (`engine.wire.waits`)
    wakes: at its container's end it wakes an engine that sleeps (`engine.wire.wakeup`)
    """

    pid: int
    pid_start: int
    started_ns: int
    warnings: tuple[str, ...] = ()
    keeps_waiters: bool = False
    wakes: bool = False


@dataclass(frozen=True, slots=True)
class Spawns:
    """spawner → daemon: the greeting. version: equal for the same files and the same Python, else different."""

    version: str


@dataclass(frozen=True, slots=True)
class Warned:
    """monitor → daemon: words for its log.

    From an exec, before `Started`: what was asked for and this host could not provide. From any monitor, at any time:
    the message of the daemon that it could not carry out or understand.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """monitor → daemon: process 1 never came to execve. `exit_code` is what a shell would say (125, 126, 127)."""

    step: str
    errno: int
    text: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Exited:
    """monitor → daemon, and the text of the exit file: process 1 has ended and its output is on disk.

    Also the greeting of a monitor that stays for clients that wait for this end; waiters: how many there are
    """

    exit_code: int
    finished_ns: int
    started_ns: int = 0
    waiters: int = 0


@dataclass(frozen=True, slots=True)
class Detached:
    """monitor → daemon: a client has sent its detach keys and was detached."""


@dataclass(frozen=True, slots=True)
class Attach:
    """daemon → monitor: serve one more client. Descriptor: its socket.

    after: (inode, offset) up to which the daemon has sent the client a log of JSON lines; None: nothing of such a log
        is owed
    """

    client: Client
    after: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Resize:
    """daemon → monitor: the terminal's new size."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class BeResolver:
    """daemon → spawner: make a process that answers the names of containers and listens in `exec_root`.

    Descriptor: the resolver's end of its first link.
    """

    exec_root: str


@dataclass(frozen=True, slots=True)
class Resolves:
    """resolver → daemon: the greeting, by which a daemon learns which containers it serves.

    serves: (container id, start time of its process 1) of each; pid, pid_start: the resolver's own on the host
    """

    pid: int
    pid_start: int
    serves: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """One network that a container is in, and what the container is called there.

    network, name: the network's id and name; names: the container's names, of which the first is given for its
        addresses (PTR)
    addresses: its IPv4 and IPv6 addresses, as text; links: (alias, name) that this container alone may ask for
    """

    network: str
    name: str
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Serve:
    """daemon → resolver: this run of a container has these places from now on, and no others.

    Descriptors: its network namespace, a pidfd of its process 1. Answered with `Served`.
    pid_start: the start time of its process 1, which identifies the run; forwards: names that no place knows are asked
        of other name servers
    servers: the name servers to ask, from the container's network; none: the host's, from the host's network
    dotted: names of one label are never asked of other servers
    """

    container: str
    pid_start: int
    places: tuple[Place, ...]
    forwards: bool = False
    servers: tuple[str, ...] = ()
    dotted: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """resolver → daemon: the request was carried out; or `text` says why not."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Forget:
    """daemon → resolver: no container may find this container any more, and nothing is served in it.

    Answered with `Served`.
    """

    container: str


@dataclass(frozen=True, slots=True)
class BeProxy:
    """daemon → spawner: make the userland proxy, which carries published ports to containers.

    Descriptors: the proxy's end of its first link, the socket at which later daemons connect, and the exec root. What
    daemon and proxy say to each other stands in `wire.leads`.
    """


@dataclass(frozen=True, slots=True)
class BeTransparentProxy:
    """daemon → spawner: the same as `BeProxy`, for a proxy that reaches containers from its clients' own addresses.

    It keeps the one capability that this needs (CAP_NET_RAW), so it is for a daemon whose network is its own.
    """


Message = (
    Start
    | Exec
    | NamespacesReady
    | Proceed
    | Started
    | Spawns
    | Warned
    | Failed
    | Exited
    | Detached
    | Attach
    | Resize
    | BeResolver
    | Resolves
    | Serve
    | Served
    | Forget
    | BeProxy
    | BeTransparentProxy
)
"""Every message that one process sends to another; the other classes here are parts of messages."""
