"""Connects the network of a user's daemon to the host's by pasta(1) or slirp4netns(1), whichever is installed.

Runs in the daemon of a user. The program runs as the user, in the host's network, and carries what containers send to
the outside; it outlives the daemon as the containers do. The daemon watches it, and starts it anew when it has ended. A
record in the exec root says which process it is, so that the next daemon watches that one. Nothing comes in this way:
published ports are the userland proxy's. The host's loopback interface cannot be reached through it.
"""

import contextlib
import json
import logging
import os
import select
import signal
import threading
from collections.abc import Callable

from engine.dataclass import dataclass
from engine.errors import SystemFailure
from engine.kernel import outside, syscalls, wholefile

log = logging.getLogger(__name__)

_RECORD = "outward"
_LOG = "outward.log"
_NETWORK = "network"
_NAMES = "resolv.conf"
_RESOLVER = "/etc/resolv.conf"
_LARGEST = 65536
_DEVICE = "tap0"
_NAME_SERVER = "10.0.2.3"
"""The address at which both programs answer names, with what the host's name servers say."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LIVED = 60.0
LACKING = (
    "No program carries what containers send to the outside, which they cannot reach: install passt or slirp4netns"
    " and restart the daemon"
)


def _pasta(network: str) -> list[str]:
    own = ("--address", "10.0.2.100", "--netmask", "24", "--gateway", "10.0.2.2", "--dns-forward", _NAME_SERVER)
    closed = ("--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none", "--no-map-gw")
    names = ("--ns-ifname", _DEVICE, "--netns", network, "--no-netns-quit")
    return ["--foreground", "--quiet", "--config-net", *own, *closed, *names]


def _slirp4netns(network: str) -> list[str]:
    return ["--configure", "--mtu=65520", "--disable-host-loopback", "--netns-type=path", network, _DEVICE]


_PROGRAMS: dict[str, Callable[[str], list[str]]] = {"pasta": _pasta, "slirp4netns": _slirp4netns}


def program() -> tuple[str, str] | None:
    """The name and the path of the program that is installed, pasta before slirp4netns; None for neither."""
    for name in _PROGRAMS:
        for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(directory, name)
            if os.path.isabs(path) and os.access(path, os.X_OK) and os.path.isfile(path):
                return name, path
    return None


@dataclass(frozen=True, slots=True)
class _Running:
    """A process that connects: its pid, when it started (`syscalls.process_start`), and the network that it is for."""

    pid: int
    start: int
    network: str


class Outward:
    """The connection of one daemon. Its thread watches the process; `stop` is called by the main thread alone."""

    def __init__(self, exec_root: str) -> None:
        self._exec_root = exec_root
        self._program = program()
        self._stopping = threading.Event()
        self._mounted = False
        self._now = -1  # a pidfd of the process; -1 for none

    def start(self) -> None:
        """Have a process connect the networks, and watch it. What fails is logged: containers run without, too."""
        if self._program is None:
            log.warning("%s", LACKING)
            return
        try:
            self._show_names()
            self._now = self._found()
            if self._now < 0:
                self._now = self._begun()
        except (OSError, SystemFailure) as error:
            log.warning("containers cannot reach the outside: %s", error)
        threading.Thread(target=self._watch, name="outward", daemon=True).start()

    def stop(self) -> None:
        """End the process; for a daemon that leaves no container behind."""
        self._stopping.set()
        if self._now >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._now, signal.SIGTERM)
                select.select([self._now], [], [], _FIRST_PAUSE)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._exec_root, _RECORD))

    def _watch(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            if self._now >= 0:
                ended = _waited(self._now, _LIVED)
                if not ended:
                    pause = _FIRST_PAUSE
                    continue
                if self._stopping.is_set():
                    return
                log.warning("the process that connects containers to the outside has ended: %s", self._last_words())
                self._now = -1
            if self._stopping.wait(pause):
                return
            pause = min(pause * 2, _LONGEST_PAUSE)
            try:
                self._now = self._begun()
            except (OSError, SystemFailure) as error:
                log.warning("containers cannot reach the outside: %s", error)

    def _found(self) -> int:
        """A pidfd of the process that an earlier daemon has started for this network; -1 for none."""
        try:
            with open(os.path.join(self._exec_root, _RECORD), "rb") as file:
                told = _Running(**json.loads(file.read(_LARGEST)))
            pidfd = os.pidfd_open(told.pid)
        except (OSError, ValueError, TypeError):
            return -1
        try:
            same = syscalls.process_start(told.pid) == told.start
        except (FileNotFoundError, ProcessLookupError):
            same = False
        if same and told.network == _own_network():
            return pidfd
        if same:  # it connects a network in which nobody is any more
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        os.close(pidfd)
        return -1

    def _begun(self) -> int:
        """Start the program; a pidfd of its process. Raises OSError, SystemFailure."""
        name, path = self._program or ("", "")
        network = os.path.join(self._exec_root, _NETWORK)
        leader = f"/proc/{os.getpid()}/ns/net"  # of the main thread, which is at home

        def begin() -> int:
            # The program gives up the rights by which it could open the network of another process. So it finds it
            # mounted on a file. Only the daemon's threads in the host's network, and the program, see that mount.
            if not self._mounted:
                with open(network, "ab"):
                    pass
                syscalls.mount(leader, network, None, syscalls.MS_BIND)
                self._mounted = True
            argv = [path, *_PROGRAMS[name](network)]
            with open(os.path.join(self._exec_root, _LOG), "wb") as words, open(os.devnull, "rb") as nothing:
                streams = [(os.POSIX_SPAWN_DUP2, file.fileno(), fd) for fd, file in enumerate((nothing, words, words))]
                # The daemon's threads block the signals that end the daemon, and Python ignores SIGPIPE. This program
                # is to hear the first, and ends if it does not find the second as it usually is.
                return os.posix_spawn(
                    path,
                    argv,
                    os.environ,
                    file_actions=streams,
                    setsid=True,
                    setsigmask=(),
                    setsigdef=(signal.SIGPIPE,),
                )

        pid = outside.call(begin)
        pidfd = os.pidfd_open(pid)
        record = {"pid": pid, "start": syscalls.process_start(pid), "network": _own_network()}
        wholefile.write(os.path.join(self._exec_root, _RECORD), json.dumps(record))
        # So that it leaves no zombie.
        threading.Thread(target=os.waitpid, args=(pid, 0), name="outward child", daemon=True).start()
        log.info("%s connects containers to the outside", name)
        return pidfd

    def _show_names(self) -> None:
        """Show the containers' side the name server that can be reached from there, in the place of the host's."""
        host = outside.call(_resolv_conf)
        others = [line for line in host.splitlines() if line.split()[:1] not in ([], ["nameserver"])]
        path = os.path.join(self._exec_root, _NAMES)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("\n".join([f"nameserver {_NAME_SERVER}", *others, ""]))
        if os.path.exists(_RESOLVER) and not os.path.samefile(path, _RESOLVER):
            syscalls.mount(path, os.path.realpath(_RESOLVER), None, syscalls.MS_BIND)

    def _last_words(self) -> str:
        try:
            with open(os.path.join(self._exec_root, _LOG), encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file.read(_LARGEST).splitlines() if line.strip()]
        except OSError:
            lines = []
        return lines[-1] if lines else "without a word"


def _resolv_conf() -> str:
    try:
        with open(_RESOLVER, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_LARGEST)
    except FileNotFoundError:  # the file need not exist
        return ""


def _own_network() -> str:
    return os.readlink(f"/proc/{os.getpid()}/ns/net")


def _waited(pidfd: int, seconds: float) -> bool:
    """Whether the process has ended within this time."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
