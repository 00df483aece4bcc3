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
import threading

from engine.errors import Unavailable
from engine.wire.channel import Channel
from engine.wire.messages import BeResolver, Exec, Start

log = logging.getLogger(__name__)

_SEND_LIMIT = struct.pack("ll", 10, 0)  # seconds and microseconds: struct timeval


class Spawner:
    """Who forks monitors. muxer, stage: as `engine.spawner.main.serve` takes them."""

    def __init__(self, channel: Channel, muxer: str, stage: str) -> None:
        self._channel = _patient(channel)
        self._muxer = muxer
        self._stage = stage
        self._restarting = threading.Lock()
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
            self._channel = _patient(ours)
            dead.close()


def _patient(channel: Channel) -> Channel:
    """Let what is sent wait for so long and no longer: other threads wait for their turn to send meanwhile."""
    channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_LIMIT)
    return channel


def _import_root() -> str:
    """The directory that `engine` was imported from, whatever the working directory is by now."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
