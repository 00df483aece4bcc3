"""Runs the program of an image in a container, with one socket as its standard input and output.

Runs on a thread that builds. The container is made, started and removed like that of a step (see `run`), with the
rights of an ordinary container and no more. The program and whoever has the other end of the socket converse; what it
writes to its standard error is told. When nobody waits any more, the container is removed.
"""

import os
import select
import socket
import time
from collections.abc import Callable, Sequence

from engine.daemon.builder import run
from engine.daemon.builder.graph.work import Caller
from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import create, start, wait
from engine.daemon.images.image import Image
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.dataclass import dataclass
from engine.wire.schema import Client

_SPEAKS = Client(streams=1 | 2, framed=False)
_ERRORS = Client(streams=4, framed=False)
_PIECE = 64 * 1024
_GRACE_SECONDS = 5.0  # for a program to which nobody listens any more


@dataclass(frozen=True, slots=True)
class Speaker:
    """What is run. argv: the command, which replaces the image's own; env: further variables; network: has one"""

    image: Image
    argv: tuple[str, ...]
    env: tuple[str, ...] = ()
    network: bool = True


@dataclass(frozen=True, slots=True)
class Listener:
    """Who converses with it. peer: becomes its standard input and output; gone: is readable once nobody listens

    errors: takes what it writes to its standard error
    """

    peer: socket.socket
    gone: int
    errors: Callable[[bytes], None]


def converse(engine: ContainerParts, speaker: Speaker, listener: Listener, caller: Caller) -> int | None:
    """Run it to its end; its exit code, None where it had to be ended, since nobody listens. Closes the peer.

    Raises what start raises, and what the caller raises.
    """
    try:
        container = _created(engine, speaker)
    except BaseException:
        listener.peer.close()
        raise
    try:
        return _run(engine, container, listener, caller)
    finally:
        run.discard(engine, container)


def _created(engine: ContainerParts, speaker: Speaker) -> Container:
    body: Object = {
        "Image": speaker.image.id,
        "Entrypoint": list(speaker.argv),
        "Env": [*_variables(speaker.image), *speaker.env],
        "OpenStdin": True,
        "StdinOnce": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {"NetworkMode": "default" if speaker.network else "none", "LogConfig": {"Type": "none"}},
    }
    container, _ = create.create(engine, None, body, None, lasting=False, beside=table.begin_step)
    return container


def _variables(image: Image) -> Sequence[str]:
    return (image.config.get("config") or {}).get("Env") or ()


def _run(engine: ContainerParts, container: Container, listener: Listener, caller: Caller) -> int | None:
    ours, theirs = socket.socketpair()
    with ours, select.epoll() as both:
        waiter = wait.subscribe(container, "next-exit")
        with container.operation:
            container.waiting.append((_SPEAKS, listener.peer))
            container.waiting.append((_ERRORS, theirs))
        announce(engine, container, "attach")
        start.start(engine, container)
        both.register(ours, select.EPOLLIN)
        both.register(listener.gone, select.EPOLLIN)
        until = None
        while until is None or time.monotonic() < until:
            caller.watch(both.fileno()) if until is None else caller.check()
            ready = dict(both.poll(_GRACE_SECONDS))
            if ours.fileno() in ready:
                data = os.read(ours.fileno(), _PIECE)
                if not data:
                    code, _ = waiter.result(caller.watch)
                    return code
                listener.errors(data)
            if listener.gone in ready:
                both.unregister(listener.gone)
                until = time.monotonic() + _GRACE_SECONDS
    return None
