"""Attach a client's connection to a container's streams.

The connection goes to the monitor, so that no byte of it passes the daemon. A client that attaches before the start
waits in the container's record and goes along with the start.
"""

import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass

from engine.daemon.containers import logs
from engine.daemon.containers.record import Container
from engine.errors import Conflict, Invalid
from engine.logs.query import Query
from engine.wire.messages import Attach, Client

DEFAULT_DETACH_KEYS = "ctrl-p,ctrl-q"
_CONTROL_KEYS = {f"ctrl-{key}": code for code, key in enumerate("@abcdefghijklmnopqrstuvwxyz[\\]^_")}


@dataclass(frozen=True, slots=True)
class Asked:
    """The query of an attach call; `detach_keys` as docker writes them, empty for the default."""

    logs: bool
    stream: bool
    stdin: bool
    stdout: bool
    stderr: bool
    detach_keys: str = ""


def parse_detach_keys(text: str) -> bytes:
    """`ctrl-p,ctrl-q` or `a,b` as the bytes a terminal sends; raises Invalid."""
    keys = bytearray()
    for key in text.split(","):
        if key in _CONTROL_KEYS:
            keys.append(_CONTROL_KEYS[key])
        elif len(key) == 1 and key.isascii():
            keys.append(ord(key))
        else:
            raise Invalid(f"Invalid detach keys ({text}) provided")
    return bytes(keys)


def attach(engine: object, container: Container, asked: Asked, hijack: Callable[[], socket.socket]) -> None:
    """Serve the client on the connection that `hijack` hands out; raises only before it is called."""
    tty = container.config["Tty"]
    keys = parse_detach_keys(asked.detach_keys or DEFAULT_DETACH_KEYS)
    with container.changed:
        if container.state.status == "paused" and asked.stream:
            raise Conflict(f"container {container.id} is paused, unpause the container before attach")
    if not asked.stream:
        with hijack() as connection:
            _replay(engine, container, asked, connection)
        return
    client = Client(
        streams=asked.stdin * 1 + asked.stdout * 2 + asked.stderr * 4,
        framed=not tty,
        detach=keys if tty and asked.stdin else b"",
        replay=asked.logs,
    )
    # A client that has seen the head may have the container started at once: that start has to find it here.
    with container.operation:
        connection = hijack()
        if not container.snapshot().running:
            container.waiting.append((client, connection))
            return
        with connection, contextlib.suppress(Conflict):  # it has just ended: the client sees its connection's end
            engine.links.send(container.id, Attach(client), [connection.fileno()])


def _replay(engine: object, container: Container, asked: Asked, connection: socket.socket) -> None:
    if asked.logs and (asked.stdout or asked.stderr):
        query = Query(stdout=asked.stdout, stderr=asked.stderr, tty=container.config["Tty"])
        logs.send(engine, container, connection.fileno(), query, follow=False, chunked=False)
