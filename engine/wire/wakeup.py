"""How a monitor wakes an engine that sleeps: a file that says whom to call, and the call.

A daemon that ends because it has nothing to do leaves the file in the exec directory of each container whose end is
work for a daemon. The file has the path of a Unix socket at which systemd or `engine listen` listens. A monitor that
has no daemon when its container ends connects there and hangs up. Whoever listens then starts a daemon, which finds the
end. `_muxer/process/finish.c` does the same.
"""

import os
import socket

from engine.wire import exitfile

NAME = "wake"
_LONGEST = 107  # bytes of a Unix socket's path, unix(7)


def leave(exec_dir: str, path: str) -> None:
    """Leave the file in an exec directory. path: of the socket, absolute. Raises OSError."""
    exitfile.write(exec_dir, os.fsencode(path), NAME)


def call(exec_dir: str) -> None:
    """Call whom the file names; nothing happens where there is no file, or nobody listens."""
    try:
        path = exitfile.read(exec_dir, NAME)
        if path and len(path) <= _LONGEST:
            ring(os.fsdecode(path))
    except OSError:
        pass  # nobody listens any more, or so many clients wait there that a daemon is about to start


def ring(path: str) -> None:
    """Connect to the socket at a path and hang up; never waits. Raises OSError, BlockingIOError for a full queue."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as caller:
        caller.connect(path)
