"""What the tests of log drivers share: how a driver is asked for, and a client that attaches."""

import socket
from collections.abc import Callable, Sequence

from tests.harness import frames
from tests.harness.daemon import Daemon


def driver(name: str, **options: str) -> dict:
    """The part of create's body that asks for a driver; option names with `_` for `-`."""
    config = {option.replace("_", "-"): value for option, value in options.items()}
    return {"HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": name, "Config": config}}}


def heard(daemon: Daemon, container: Callable[..., str], words: Sequence[tuple[int, str]], **body: object) -> str:
    """A container that has said these lines, each to its stream and once the one before it was read, and has ended."""
    script = 'while read -r stream text; do if [ $stream = 1 ]; then echo "$text"; else echo "$text" >&2; fi; done'
    one = container("sh", "-c", script, OpenStdin=True, StdinOnce=True, **body)
    with daemon.connection() as connection:
        connection.hijack(f"/containers/{one}/attach?stream=1&stdin=1&stdout=1&stderr=1")
        daemon.begin(one)
        for stream, text in words:
            connection.send(f"{stream} {text}\n".encode())
            said = frames.frame(stream, f"{text}\n".encode())
            assert connection.read(len(said)) == said
        connection.half_close()
        assert connection.read_to_end() == b""
    daemon.wait(one)
    return one


def attached(daemon: Daemon, identifier: str, query: str) -> socket.socket:
    """A connection that was attached, its head read."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)  # a busy machine may keep everybody waiting
    connection.connect(str(daemon.socket))
    head = f"POST /containers/{identifier}/attach?{query} HTTP/1.1\r\nHost: x\r\n"
    connection.sendall(f"{head}Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += connection.recv(1)
    assert b" 101 " in got
    return connection
