"""Makes and connects the listening sockets by which a new daemon finds running monitors and the resolver again.

A monitor's socket is beside its container, in its exec directory. Monitors and the resolver listen, and the daemon
connects. The socket's directory is opened first and named by its descriptor, because a Unix socket's path may have 107
bytes only (unix(7)) and an exec root's may have more.
"""

import os
import socket

NAME = "monitor.sock"
HOME = b"H"
"""The datagram by which a daemon gives a home to the monitor of an exec. Descriptors: the exec's record (see
`daemon.containers.processes.homes`), positioned where its exit status belongs, and the socket by which it is found.
"""
RESOLVER = "resolver.sock"
PROXY = "proxy.sock"
_KIND = int(socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def _address(directory: int, name: str) -> str:
    return f"/proc/self/fd/{directory}/{name}"


def listen(exec_dir: str, name: str = NAME) -> socket.socket:
    """Make a listening SOCK_SEQPACKET socket in `exec_dir`."""
    listener = socket.socket(socket.AF_UNIX, _KIND)
    directory = os.open(exec_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(_address(directory, name))
        listener.listen(4)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(directory)
    return listener


def connect(exec_dir: str, seconds: float | None = None, name: str = NAME) -> socket.socket:
    """Connect to the process whose socket is in `exec_dir`. Raises OSError when there is none or nobody listens.

    seconds: the socket's time limit, which also holds for later reads; BlockingIOError when that process has left as
        many connections unaccepted as may wait
    """
    connection = socket.socket(socket.AF_UNIX, _KIND)
    connection.settimeout(seconds)
    try:
        directory = os.open(exec_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.connect(_address(directory, name))
        finally:
            os.close(directory)
    except BaseException:
        connection.close()
        raise
    return connection
