"""Opens the sockets on which the API server listens: Unix sockets, sockets passed by systemd, and TCP under TLS.

The daemon's main thread opens them once, before the daemon announces that it is ready. The server (`acceptor`) closes
each.
"""

import grp
import logging
import os
import socket
import stat
from collections.abc import Callable, Iterator, Mapping

from engine.errors import Conflict, Invalid, SystemFailure
from engine.kernel import outside
from engine.late import TYPE_CHECKING, late
from engine.literals import natural
from engine.settings import asleep
from engine.settings.every import Settings

if TYPE_CHECKING:  # ssl is large, and most daemons never listen on TCP
    from engine.daemon.api import tls
else:
    tls = late("engine.daemon.api.tls")

log = logging.getLogger(__name__)

# As many as the kernel lets wait (net.core.somaxconn), as with dockerd: many clients that connect at once are not
# turned away.
_BACKLOG = 4096
_KEEPALIVE_SECONDS = 15  # of silence before the kernel asks whether a client is there, and between two questions
_MOST_PASSED = 1024
_FIRST_PASSED = 3  # SD_LISTEN_FDS_START, sd_listen_fds(3)
# Dockerd's default, which many hosts do not have: as in dockerd, the socket is root's alone there.
_MAY_BE_MISSING = "docker"
_PATH_LIMIT = 107  # sun_path without its final zero, unix(7)


class Listener:
    """A listening socket, and how to accept a connection from it.

    address: its name in the log; passed: another process has it too, and goes on listening when the daemon ends
    """

    def __init__(
        self,
        listening: socket.socket,
        address: str,
        wrap: Callable[[socket.socket], socket.socket] | None = None,
        path: str = "",
        passed: bool = False,
    ):
        listening.setblocking(False)
        self._socket = listening
        self._wrap = wrap
        self._path = path
        self._inode = os.stat(path).st_ino if path else 0
        self.address = address
        self.passed = passed

    @property
    def path(self) -> str:
        """The absolute path of a Unix socket's file; empty for any other socket."""
        name = self._socket.getsockname() if self._socket.family == socket.AF_UNIX else ""
        return name if isinstance(name, str) and name.startswith("/") else ""

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> socket.socket:
        """The next connection, on which plain bytes travel. Raises OSError, and BlockingIOError when no
        client waits.
        """
        peer, _ = self._socket.accept()
        if peer.family != socket.AF_UNIX:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # or a client that vanished stays for ever
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
                peer.setsockopt(socket.IPPROTO_TCP, option, _KEEPALIVE_SECONDS)
        return peer if self._wrap is None else self._wrap(peer)

    def close(self) -> None:
        """Close the socket, and remove its file if that is still this listener's. A second call does nothing.

        It is not shut down: a socket that systemd has passed is systemd's, who listens on it for the next daemon.
        """
        if self._socket.fileno() < 0:
            return
        self._socket.close()
        if self._path:
            try:
                if os.stat(self._path).st_ino == self._inode:
                    os.unlink(self._path)
            except FileNotFoundError:
                log.warning("%s was removed by someone else", self._path)


def open_listeners(settings: Settings, environ: Mapping[str, str] = os.environ) -> list[Listener]:
    """Open every listener of `settings.hosts`; when one of them fails, all are closed again.

    Raises Invalid (an impossible address or group), Conflict (another daemon listens there), SystemFailure.
    """
    listeners: list[Listener] = []
    try:
        for host in settings.hosts:
            kind, _, rest = host.partition("://")
            listeners.extend(_OPENERS[kind](rest, settings, environ))
        if settings.idle_exit:
            _check_held(listeners)
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def open_metrics(address: str) -> list[Listener]:
    """Open the socket for metrics at `host:port`, on which any client may ask. Raises SystemFailure."""
    return [Listener(bind_tcp(address, f"{address} for metrics"), f"tcp://{address} (metrics)")]


def _check_held(listeners: list[Listener]) -> None:
    """Raise Invalid for a daemon that is to end by itself, and with which one of its sockets would end."""
    for listener in listeners:
        if not listener.passed:
            raise Invalid(
                f"--{asleep.KEY} needs sockets that systemd or `engine listen` holds: when the daemon has ended, nobody"
                f" would listen on {listener.address}"
            )


def passed_sockets(environ: Mapping[str, str]) -> list[int]:
    """The descriptors that were passed to this process (sd_listen_fds(3)); none where they are for another one.

    Raises Invalid where they are not as many listening sockets as the environment says.
    """
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    text = environ.get("LISTEN_FDS") or "0"
    count = natural(text, _MOST_PASSED)
    if count is None:
        raise Invalid(f"LISTEN_FDS={text}: it has to be the number of sockets that were passed, {_MOST_PASSED} at most")
    found = list(range(_FIRST_PASSED, _FIRST_PASSED + count))
    for fd in found:
        if not _listens(fd):
            raise Invalid(f"LISTEN_FDS={text}: the descriptor {fd} is no listening socket (see systemd.socket(5))")
    return found


def _listens(fd: int) -> bool:
    try:
        passed = socket.socket(fileno=fd)
    except OSError:  # it is not open, or of another kind
        return False
    try:
        return bool(passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    finally:
        passed.detach()


def _adopted(bound: Callable[[socket.socket], bool], environ: Mapping[str, str]) -> socket.socket | None:
    """The passed socket of which `bound` is true: `engine listen` passes what `--host` names; None where none is."""
    for fd in passed_sockets(environ):
        passed = socket.socket(fileno=fd)
        if bound(passed):
            os.set_inheritable(fd, False)
            return passed
        passed.detach()
    return None


def _open_unix(path: str, settings: Settings, environ: Mapping[str, str]) -> Iterator[Listener]:
    adopted = _adopted(lambda each: each.family == socket.AF_UNIX and each.getsockname() == path, environ)
    if adopted is not None:
        yield Listener(adopted, f"unix://{path}", passed=True)
        return
    yield Listener(bind_unix(path, settings.group), f"unix://{path}", path=path)


def bind_unix(path: str, group_name: str) -> socket.socket:
    """A new Unix socket that listens at a path, for root and a group. Raises Invalid, Conflict and SystemFailure."""
    if len(os.fsencode(path)) > _PATH_LIMIT:
        raise Invalid(f"the path of a Unix socket is at most {_PATH_LIMIT} bytes long: {path}")
    group = _group_number(group_name)
    try:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        _remove_stale(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise SystemFailure(f"cannot listen on unix://{path}: {error.strerror}") from error
    try:
        # Clients cannot connect before listen(2), so there is no moment in which the file's mode is too wide.
        listening.bind(path)
        os.chown(path, -1, group)
        os.chmod(path, 0o660)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise SystemFailure(f"cannot listen on unix://{path}: {error.strerror}") from error
    return listening


def _remove_stale(path: str) -> None:
    """Make room for a Unix socket: remove the socket of a daemon that died.

    Raises Conflict when a process listens on it, or when the file is no socket; then the file stays.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Conflict(f"cannot listen on unix://{path}: the file exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise Conflict(f"another daemon listens on unix://{path}")


def _group_number(name: str) -> int:
    """A group's number; for an empty name -1, which tells chown(2) to change nothing."""
    if not name:
        return -1
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        if name.isascii() and name.isdigit():
            return int(name)
    if name == _MAY_BE_MISSING:
        log.warning("group %s not found: the socket is for root alone", name)
        return -1
    raise Invalid(f"group {name} not found")


def _open_passed(wanted: str, settings: Settings, environ: Mapping[str, str]) -> Iterator[Listener]:
    """The sockets of systemd's socket activation (sd_listen_fds(3)); `wanted`: empty or `*` for all, a descriptor, or a
    name.
    """
    found = passed_sockets(environ)
    if not found:
        raise Invalid(f"fd://{wanted}: no sockets were passed to this process (see systemd.socket(5))")
    names = environ.get("LISTEN_FDNAMES", "").split(":")
    passed = [(fd, names[each] if each < len(names) else "") for each, fd in enumerate(found)]
    chosen = [fd for fd, name in passed if wanted in ("", "*", str(fd), name)]
    if not chosen:
        raise Invalid(f"fd://{wanted}: no such socket was passed")
    for fd in chosen:
        os.set_inheritable(fd, False)
        listening = socket.socket(fileno=fd)
        if listening.family == socket.AF_UNIX:
            yield Listener(listening, f"fd://{fd}", passed=True)
        else:
            yield Listener(listening, f"fd://{fd}", _tls_wrapper(settings), passed=True)


def _open_tcp(place: str, settings: Settings, environ: Mapping[str, str]) -> Iterator[Listener]:
    host = place.rpartition(":")[0]
    wrap = _tls_wrapper(settings)
    try:
        family, address = outside.call(lambda: _resolved(place))
    except OSError as error:
        raise SystemFailure(f"cannot listen on tcp://{place}: {error.strerror}") from error
    adopted = _adopted(lambda each: each.family == family and each.getsockname()[:2] == address, environ)
    listening = adopted or bind_tcp(place)
    yield Listener(listening, f"tcp://{host}:{listening.getsockname()[1]}", wrap, passed=adopted is not None)


def _resolved(place: str) -> tuple[int, tuple[str, int]]:
    """The family and the address of `host:port`. Raises OSError."""
    host, _, port = place.rpartition(":")
    flags = socket.AI_PASSIVE
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=flags)
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def bind_tcp(place: str, shown: str = "") -> socket.socket:
    """A new TCP socket that listens at `host:port`. Raises SystemFailure, which says where (`shown`)."""

    def bound() -> socket.socket:
        family, address = _resolved(place)
        return socket.create_server(address, family=family, backlog=_BACKLOG)

    try:
        return outside.call(bound)
    except OSError as error:
        raise SystemFailure(f"cannot listen on {shown or f'tcp://{place}'}: {error.strerror}") from error


def _tls_wrapper(settings: Settings) -> Callable[[socket.socket], socket.socket] | None:
    """What wraps an accepted TCP socket in TLS; None for plain TCP, which the administrator has asked for by name."""
    if not settings.tlsverify and not settings.unguarded:
        raise Invalid("a TCP socket without --tlsverify would give root to everyone who can reach it: refused")
    if not settings.tlsverify:
        log.warning("a TCP socket without --tlsverify gives root on this host to everyone who can reach it")
    if not settings.tls:
        return None
    return tls.wrapper(settings.tlscacert if settings.tlsverify else "", settings.tlscert, settings.tlskey)


_OPENERS = {"unix": _open_unix, "fd": _open_passed, "tcp": _open_tcp}
