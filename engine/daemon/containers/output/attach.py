"""Attach a client's connection to a container's standard streams, before its start or while it runs.

The connection goes to the monitor, so that no byte of it passes through the daemon. A client that attaches before the
start waits in the container's record, and the start hands its connection to the monitor. If the start comes while such
a client still reads the log so far, the daemon's thread that sends the log relays the streams from then on.
"""

import contextlib
import select
import socket
from collections.abc import Callable

from engine.daemon.containers.announce import announce
from engine.daemon.containers.output import head, logconfig, logs, relay
from engine.daemon.containers.record import Container
from engine.daemon.parts import OutputParts
from engine.dataclass import dataclass, replace
from engine.errors import Conflict, Invalid, NotFound
from engine.logs.query import Query
from engine.wire.schema import Attach, Client

DEFAULT_DETACH_KEYS = "ctrl-p,ctrl-q"
MOST_WAITING = 200
"""Clients that may wait for one container's start: all of them travel with one message to its monitor."""
MOST_KEYS = 64
"""Detach keys for which the monitor has room."""
_ALL = Query()
_CONTROL_KEYS = {f"ctrl-{key}": code for code, key in enumerate("@abcdefghijklmnopqrstuvwxyz[\\]^_")}


@dataclass(frozen=True, slots=True)
class AskedAttach:
    """The query of an attach call.

    detach_keys: as docker writes them, empty for the default; framed: output without a terminal comes in frames;
        reference: the client's name for the container, for error texts
    """

    logs: bool
    stream: bool
    stdin: bool
    stdout: bool
    stderr: bool
    detach_keys: str = ""
    framed: bool = True
    reference: str = ""


def parse_detach_keys(text: str) -> bytes:
    """The bytes that a terminal sends for keys such as `ctrl-p,ctrl-q` or `a,b`. Raises Invalid."""
    keys = bytearray()
    for key in text.split(","):
        if key in _CONTROL_KEYS:
            keys.append(_CONTROL_KEYS[key])
        elif len(key) == 1 and key.isascii():
            keys.append(ord(key))
        else:
            raise Invalid(f"Invalid detach keys ({text}) provided")
    if len(keys) > MOST_KEYS:
        raise Invalid(f"Invalid detach keys ({text}) provided: more than {MOST_KEYS}")
    return bytes(keys)


def attach(
    engine: OutputParts,
    container: Container,
    asked: AskedAttach,
    await_body: Callable[[], None],
    hijack: Callable[[], socket.socket],
) -> None:
    """Serve the client on the connection that `hijack` returns; raises only before `hijack` is called.

    await_body: returns when the client has sent its whole announced body; after that `hijack` does not wait for the
        client
    """
    tty = container.config["Tty"]
    keys = parse_detach_keys(asked.detach_keys or DEFAULT_DETACH_KEYS)
    _refuse_states(container, asked.reference or container.id)
    if not asked.stream:
        await_body()
        with hijack() as connection:
            announce(engine, container, "attach")
            head.await_read(connection)
            _replay(engine, container, asked, connection)
        return
    client = Client(
        streams=asked.stdin * 1 + asked.stdout * 2 + asked.stderr * 4,
        framed=asked.framed and not tty,
        detach=keys if tty and asked.stdin else b"",
        replay=asked.logs,
    )
    await_body()
    if container.snapshot().alive or not _wait_for_start(engine, container, asked, client, hijack):
        _join(engine, container, asked, client, hijack())


def _join(
    engine: OutputParts, container: Container, asked: AskedAttach, client: Client, connection: socket.socket
) -> None:
    """Serve the client of a container that runs, or that has run a moment ago."""
    announce(engine, container, "attach")
    if asked.logs and (asked.stdout or asked.stderr) and logconfig.is_json(container):
        _catch_up_lines(engine, container, asked, client, connection)
        return
    with connection, contextlib.suppress(Conflict):  # it has just ended: the closed connection tells the client
        engine.monitors.send(container.id, Attach(client), [connection.fileno()])


def _wait_for_start(
    engine: OutputParts, container: Container, asked: AskedAttach, client: Client, hijack: Callable[[], socket.socket]
) -> bool:
    """Add the client to those that wait for the start; False when the container runs."""
    # Under `operation`: a client that has seen the response head may have the container started at once, and that start
    # must find the client here.
    with contextlib.ExitStack() as held:
        with container.operation:
            if container.removed:
                raise NotFound(f"No such container: {asked.reference or container.id}")
            if container.snapshot().alive:
                return False
            let_go(container)
            if len(container.waiting) >= MOST_WAITING:
                raise Conflict(f"container {container.id} already has {MOST_WAITING} clients that wait for its start")
            so_far = held.enter_context(logs.so_far(engine, container)) if asked.logs else None
            connection = hijack()
            announce(engine, container, "attach")
            if so_far is None:
                container.waiting.append((client, connection))
                return True
            place = (replace(client, replay=False), *socket.socketpair())
            container.waiting.append(place[:2])
        _catch_up(engine, container, asked, place, connection, so_far)
    return True


def _refuse_states(container: Container, reference: str) -> None:
    status = container.snapshot().status
    if status == "paused":
        raise Conflict(f"container {reference} is paused, unpause the container before attach")
    if status == "restarting":
        raise Conflict(f"container {reference} is restarting, wait until the container is running")


def _catch_up(
    engine: OutputParts,
    container: Container,
    asked: AskedAttach,
    place: tuple[Client, socket.socket, socket.socket],
    connection: socket.socket,
    so_far: Query,
) -> None:
    """Send the log of earlier runs, which is all that `so_far` wants, to a client that waits for the start.

    place: how the client is served, the end of a socket pair that waits in its stead, and the other end. A slow reader
        must not hold up the start, and must not miss what comes after. So a start meanwhile takes the pair, and then
        its bytes are relayed.
    """
    client, waiting, ours = place
    with ours:
        head.await_read(connection)
        _replay(engine, container, asked, connection, so_far)
        with container.operation:
            if (client, waiting) in container.waiting:
                container.waiting[container.waiting.index((client, waiting))] = (client, connection)
                waiting.close()
                return
        relay.relay(connection, ours)


def _catch_up_lines(
    engine: OutputParts, container: Container, asked: AskedAttach, client: Client, connection: socket.socket
) -> None:
    """Send a log of JSON lines so far, then hand the client to the monitor, which sends what was logged since."""
    with connection:
        head.await_read(connection)
        after = _replay(engine, container, asked, connection)
        if after is None:
            return
        try:
            engine.monitors.send(container.id, Attach(replace(client, replay=False), after), [connection.fileno()])
        except Conflict:
            _replay(engine, container, asked, connection, after=after)  # the container has just ended


def let_go(container: Container) -> None:
    """Forget the clients that waited for the start and have hung up; the caller holds `operation`."""
    poll = select.poll()
    for _, connection in container.waiting:
        poll.register(connection, 0)  # POLLHUP and POLLERR are always reported; a half-closed client gives neither
    gone = {descriptor for descriptor, _ in poll.poll(0)}
    for client, connection in container.waiting[:]:
        if connection.fileno() in gone:
            container.waiting.remove((client, connection))
            connection.close()


def _replay(
    engine: OutputParts,
    container: Container,
    asked: AskedAttach,
    connection: socket.socket,
    wanted: Query = _ALL,
    after: tuple[int, int] | None = None,
) -> tuple[int, int] | None:
    if not asked.logs or not (asked.stdout or asked.stderr):
        return None
    raw = container.config["Tty"] or not asked.framed
    query = replace(wanted, stdout=asked.stdout, stderr=asked.stderr, tty=raw)
    return logs.send(engine, container, connection.fileno(), query, follow=False, chunked=False, after=after)
