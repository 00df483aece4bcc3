"""What the tests of log drivers share: how a driver is asked for, and a client that attaches."""

import socket

from tests.harness.daemon import Daemon


def driver(name: str, **options: str) -> dict:
    """The part of create's body that asks for a driver; option names with `_` for `-`."""
    config = {option.replace("_", "-"): value for option, value in options.items()}
    return {"HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": name, "Config": config}}}


def attached(daemon: Daemon, identifier: str, query: str) -> socket.socket:
    """A connection that was attached, its head read."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(str(daemon.socket))
    head = f"POST /containers/{identifier}/attach?{query} HTTP/1.1\r\nHost: x\r\n"
    connection.sendall(f"{head}Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += connection.recv(1)
    assert b" 101 " in got
    return connection
