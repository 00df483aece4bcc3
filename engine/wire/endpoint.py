"""The socket beside a container by which a new daemon finds its monitor again.

Used by the monitor to listen and by the daemon to connect. The socket's directory is opened first and named by its
descriptor, because a Unix socket's path may have 107 bytes only (unix(7)) and an exec root's may have more.
"""

import os
import socket

NAME = "monitor.sock"


def _address(directory: int) -> str:
    return f"/proc/self/fd/{directory}/{NAME}"


def listen(exec_dir: str) -> socket.socket:
    """A listening SOCK_SEQPACKET socket in `exec_dir`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    directory = os.open(exec_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(_address(directory))
        listener.listen(4)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(directory)
    return listener


def connect(exec_dir: str, seconds: float | None = None) -> socket.socket:
    """A connection to the monitor whose socket is in `exec_dir`; OSError when there is none or nobody listens.

    seconds: the socket's time limit, for what is read from it too; BlockingIOError where the monitor has left as many
        connections unanswered as may wait.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    connection.settimeout(seconds)
    try:
        directory = os.open(exec_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.connect(_address(directory))
        finally:
            os.close(directory)
    except BaseException:
        connection.close()
        raise
    return connection
