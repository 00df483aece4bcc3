"""The daemon's link to the spawner, and a new spawner when that one has died.

Used by the API's threads. The first spawner was forked from a small process before there were threads (`engine.boot`);
a later one is executed anew, as a process with threads must not fork. Containers do not depend on either.
"""

import contextlib
import logging
import os
import resource
import socket
import struct
import sys

from engine.daemon import locks
from engine.errors import Invalid, Unavailable
from engine.wire.channel import Channel
from engine.wire.schema import BeResolver, Exec, Spawns, Start

log = logging.getLogger(__name__)

_SEND_LIMIT = struct.pack("ll", 10, 0)  # seconds and microseconds: struct timeval
_GREETING_SECONDS = 20.0  # for a Python that starts on a machine that does other work


class Spawner:
    """Who forks monitors. muxer, stage: as `engine.spawner.main.serve` takes them."""

    def __init__(self, channel: Channel, muxer: str, stage: str) -> None:
        self._channel = _patient(channel)
        self._muxer = muxer
        self._stage = stage
        self._version: str | None = None  # of the first one, once it was asked for
        # The next one is waited for under it, by those who cannot go on without.
        self._restarting = locks.Lock("restart of the spawner")
        # What containers inherit: the daemon may have lifted its own since (`main`), and they are not to notice.
        self._files = resource.getrlimit(resource.RLIMIT_NOFILE)

    def send(self, start: Start | Exec | BeResolver, descriptors: list[int], *, ordinary: bool) -> None:
        """Ask for a container, an exec or the resolver; see `Channel.send`.

        Raises Unavailable when there is no spawner to be had, or it takes nothing for long: it may be stopped.
        """
        used = self._channel
        try:
            used.send(start, descriptors, ordinary=ordinary)
        except (BrokenPipeError, ConnectionResetError):
            try:
                self._restart(used)
                self._channel.send(start, descriptors, ordinary=ordinary)
            except OSError as error:
                raise Unavailable(f"the process that makes containers cannot be started: {error}") from error
        except BlockingIOError as error:  # SO_SNDTIMEO, see socket(7)
            raise Unavailable("the process that makes containers does not answer") from error

    def fileno(self) -> int:
        """The descriptor of the link to the present one."""
        return self._channel.fileno()

    def _restart(self, dead: Channel) -> None:
        with self._restarting:
            if self._channel is not dead:
                return  # another thread has done it
            log.warning("the spawner has died; another is started")
            with contextlib.suppress(ChildProcessError):  # it was nobody's child any more
                os.waitpid(-1, os.WNOHANG)
            import subprocess  # never needed but for this

            ours, theirs = Channel.pair()
            with theirs:
                command = [sys.executable, "-m", "engine", "spawner", str(theirs.fileno()), self._muxer, self._stage]
                environment = {**os.environ, "PYTHONPATH": _import_root()}
                made = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment)
                resource.prlimit(made.pid, resource.RLIMIT_NOFILE, self._files)
            try:
                self._compare(dead, ours)
            except BaseException:
                ours.close()  # which ends it
                raise
            self._channel = _patient(ours)
            dead.close()

    def _compare(self, dead: Channel, fresh: Channel) -> None:
        """Speak to no spawner of another version: it would not understand, or misunderstand. Raises Unavailable."""
        if self._version is None:
            self._version = _version(dead)
        found = _version(fresh)
        if found is None:
            raise Unavailable("the process that makes containers does not say which version it is of")
        if self._version is None:
            self._version = found  # the first has died before it could say it: this one is as young
        if found != self._version:
            raise Unavailable(
                "the engine's files are of another version than this daemon: "
                "it has to be started anew before it can make another container"
            )


def _version(spawner: Channel) -> str | None:
    """What a spawner's greeting says; None where it has not come."""
    spawner.socket.settimeout(_GREETING_SECONDS)
    try:
        received = spawner.receive()
    except (TimeoutError, Invalid):
        return None
    finally:
        spawner.socket.settimeout(None)
    return received[0].version if received is not None and isinstance(received[0], Spawns) else None


def _patient(channel: Channel) -> Channel:
    """Let what is sent wait for so long and no longer: other threads wait for their turn to send meanwhile."""
    channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_LIMIT)
    return channel


def _import_root() -> str:
    """The directory that `engine` was imported from, whatever the working directory is by now."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
