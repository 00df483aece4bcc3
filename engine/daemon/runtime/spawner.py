"""The daemon's link to the spawner, the process that forks monitors, and its restart when it has died.

The API's threads use it. The first spawner was forked from a small process before there were threads (`engine.boot`). A
later one is executed as a new Python process, because a process with threads must not fork. No running container
depends on a spawner.
"""

import logging
import os
import resource
import socket
import struct

from engine import origin
from engine.daemon import locks
from engine.errors import Invalid, Unavailable
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late
from engine.wire.channel import Channel

if TYPE_CHECKING:  # loaded by a restart
    import subprocess

if TYPE_CHECKING:  # loaded with the first container
    from engine.wire import schema
    from engine.wire.schema import BeProxy, BeResolver, BeTransparentProxy, Exec, Start

    Request = Start | Exec | BeResolver | BeProxy | BeTransparentProxy | bytes
    """What a spawner is asked for: a message, or a request that has its mark already."""
else:
    schema = late("engine.wire.schema")

log = logging.getLogger(__name__)

_SEND_LIMIT = struct.pack("ll", 10, 0)  # seconds and microseconds: struct timeval
_GREETING_SECONDS = 20.0  # enough for a new Python process to start on a busy machine


class Spawner:
    """The link to the present spawner. muxer, stage: the parameters of `engine.spawner.main.serve`.

    pid: the spawner's, which is a child of this process
    """

    def __init__(self, channel: Channel, pid: int, muxer: str, stage: str) -> None:
        self._channel = _patient(channel)
        self._first, self._later = pid, list["subprocess.Popen[bytes]"]()  # those that are not reaped yet
        self._muxer = muxer
        self._stage = stage
        self._version: str | None = None  # of the first spawner, once its greeting was read
        # Threads that need a spawner wait under this lock until the next one has started.
        self._restarting = locks.Lock("restart of the spawner")
        # The limit that containers inherit. The daemon may raise its own later (`main`), which must not reach them.
        self._files = resource.getrlimit(resource.RLIMIT_NOFILE)

    def send(self, start: "Request", descriptors: list[int], *, ordinary: bool) -> None:
        """Ask the spawner for a container, an exec, the resolver or the proxy.

        The parameters are those of `Channel.send`; start: or a request that has its mark already (`runtime.births`)

        Raises Unavailable when a new spawner is needed and cannot be started, or when the spawner reads nothing for 10
        seconds, because it may be stopped.
        """
        used = self._channel
        try:
            _send(used, start, descriptors, ordinary)
        except (BrokenPipeError, ConnectionResetError):
            try:
                self._restart(used)
                _send(self._channel, start, descriptors, ordinary)
            except OSError as error:
                raise Unavailable(
                    f"the process that makes containers cannot be started: {reasons.whole(error)}"
                ) from error
        except BlockingIOError as error:  # SO_SNDTIMEO, see socket(7)
            raise Unavailable("the process that makes containers does not answer") from error

    def fileno(self) -> int:
        """The descriptor of the link to the present spawner."""
        return self._channel.fileno()

    def _restart(self, dead: Channel) -> None:
        with self._restarting:
            if self._channel is not dead:
                return  # another thread has done it
            log.warning("the spawner has died; another is started")
            self._reap()
            import subprocess  # imported late: needed only here

            ours, theirs = Channel.pair()
            with theirs:
                made = subprocess.Popen(
                    origin.command("spawner", str(theirs.fileno()), self._muxer, self._stage),
                    pass_fds=(theirs.fileno(), *origin.descriptors()),
                    stdin=subprocess.DEVNULL,
                    cwd="/",
                    env=origin.environment(),
                )
                self._later.append(made)
                resource.prlimit(made.pid, resource.RLIMIT_NOFILE, self._files)
            try:
                self._compare(dead, ours)
            except BaseException:
                ours.close()  # which ends the new spawner
                raise
            self._channel = _patient(ours)
            dead.close()

    def _reap(self) -> None:
        """Reap the spawners that have died, and no other child: whoever has made that waits for its status."""
        if self._first and os.waitpid(self._first, os.WNOHANG)[0]:
            self._first = 0
        self._later = [each for each in self._later if each.poll() is None]

    def _compare(self, dead: Channel, fresh: Channel) -> None:
        """Raise Unavailable for a spawner of another version than the first: it could misunderstand requests."""
        if self._version is None:
            self._version = _version(dead)
        found = _version(fresh)
        if found is None:
            raise Unavailable("the process that makes containers did not report its version")
        if self._version is None:
            self._version = found  # the first died before its greeting: the daemon is about as young as this one
        if found != self._version:
            raise Unavailable(
                "the engine's files are of another version than this daemon: "
                "restart the daemon to make containers again"
            )


def _send(channel: Channel, start: "Request", descriptors: list[int], ordinary: bool) -> None:
    if isinstance(start, bytes):
        channel.send_packed(start, descriptors)
    else:
        channel.send(start, descriptors, ordinary=ordinary)


def _version(spawner: Channel) -> str | None:
    """The version in a spawner's greeting; None where no greeting has come in time."""
    spawner.socket.settimeout(_GREETING_SECONDS)
    try:
        received = spawner.receive()
    except (TimeoutError, Invalid):
        return None
    finally:
        spawner.socket.settimeout(None)
    return received[0].version if received is not None and isinstance(received[0], schema.Spawns) else None


def _patient(channel: Channel) -> Channel:
    """Limit how long a send may block (`_SEND_LIMIT`), because other threads wait for their turn to send meanwhile."""
    channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_LIMIT)
    return channel
