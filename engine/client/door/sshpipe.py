"""Reaches a daemon of another host by the user's own program `ssh`, which runs `system dial-stdio` there.

Runs in the client's one thread. The stream's other end is the standard input and output of ssh. ssh asks for what it
needs (keys, an agent, `~/.ssh/config`) by itself; it has no terminal to ask for a password, as with docker.
"""

import shlex
import socket
import subprocess

from engine.client.door.destination import Destination

_CONNECT_SECONDS = 30
# The other host may have this engine, or docker, or this engine under docker's name.
_PROGRAMS = ("engine", "docker")

_RUNNING: list[subprocess.Popen[bytes]] = []
"""The programs of this process; each ends when its stream is closed."""


def opened(place: Destination) -> socket.socket:
    """A socket whose other end is ssh; the caller closes it. Raises OSError where ssh cannot be run."""
    near, far = socket.socketpair()
    with far:
        try:
            _RUNNING.append(
                subprocess.Popen(command(place), stdin=far.fileno(), stdout=far.fileno(), start_new_session=True)
            )
        except BaseException:
            near.close()
            raise
    return near


def command(place: Destination) -> list[str]:
    """The command line of ssh."""
    words = ["ssh", "-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-T"]
    words += ["-l", place.user] if place.user else []
    words += ["-p", str(place.port)] if place.port else []
    return [*words, "--", place.host, f"exec sh -c {shlex.quote(script(place.path))}"]


def script(path: str) -> str:
    """What a shell of the other host runs: the first of the programs that is there.

    path: of the daemon's socket, empty for the default
    """
    host = ["-H", f"unix://{path}"] if path else []
    tries = [
        f"command -v {program} >/dev/null && exec {shlex.join([program, *host, 'system', 'dial-stdio'])}"
        for program in _PROGRAMS
    ]
    return "; ".join([*tries, f"echo 'this host has none of: {', '.join(_PROGRAMS)}' >&2; exit 127"])
