"""Serve a container's log to a client: the lines that are kept, and with `follow` new ones until the container ends."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from engine.daemon.containers import paths
from engine.daemon.containers.output import logconfig
from engine.daemon.containers.record import Container
from engine.daemon.parts import OutputParts
from engine.errors import NotBuilt
from engine.late import TYPE_CHECKING, late
from engine.logs.drivers import jsonfile
from engine.logs.query import Query
from engine.logs.sending import lines, sender
from engine.logs.target import LINES, NOTHING, PLUGIN

if TYPE_CHECKING:  # loaded where a container has a log of JSON lines, or a client waits for the start of one
    from engine.logs import jsonfiles, jsonreader, segment
else:
    jsonfiles = late("engine.logs.jsonfiles")
    segment = late("engine.logs.segment")
    jsonreader = late("engine.logs.jsonreader")


def check(engine: OutputParts, container: Container) -> None:
    """Raise NotBuilt for a driver that cannot be read."""
    if logconfig.form(container, engine.plugins) == NOTHING:
        raise NotBuilt("configured logging driver does not support reading")


def send(
    engine: OutputParts,
    container: Container,
    sink: int,
    query: Query,
    follow: bool,
    chunked: bool,
    details: bool = False,
    after: tuple[int, int] | None = None,
) -> tuple[int, int] | None:
    """Write the log to descriptor `sink`; with `follow`, until the container has ended or the sink is closed.

    Returns, for a log of JSON lines, the place up to which it was read, (inode, offset), or None when the client left;
    for other logs None.
    details: the attributes stand before each line; after: of a log of JSON lines, the place behind which to begin
    """
    settings = engine.settings
    where = paths.of(settings.data_root, settings.exec_root, container.id)
    form = logconfig.form(container, engine.plugins)

    def serve(ended: int | None) -> tuple[int, int] | None:
        if form == PLUGIN:
            logconfig.send_from_plugin(engine.plugins, container, sink, query, chunked, ended)
            return None
        if form != LINES:
            sender(engine.muxer)(where.log, sink, query, chunked, ended)
            return None
        name = jsonfile.file(container.id)
        return jsonreader.send(
            where.home,
            name,
            sink,
            query,
            details=details,
            chunked=chunked,
            ended_fd=ended,
            after=after,
            make=lines(engine.muxer),
        )

    if not follow:
        return serve(None)
    with _end_of(container) as ended:
        return serve(ended)


@contextmanager
def so_far(engine: OutputParts, container: Container) -> Iterator[Query]:
    """What wants the log of a container that does not run as it is now, whatever is written within the block.

    Of a plugin's log nobody knows where it ends: what came up to now is wanted.
    """
    settings = engine.settings
    where = paths.of(settings.data_root, settings.exec_root, container.id)
    form = logconfig.form(container, engine.plugins)
    if form == LINES:
        with jsonfiles.Log(where.home, jsonfile.file(container.id)) as log:  # no other file is given the inode then
            log.begin(0)
            yield Query(end=log.position)
    elif form == PLUGIN:
        yield Query(until_ns=time.time_ns())
    else:
        yield Query(end=segment.end(where.log))


def prefix(engine: OutputParts, container: Container) -> bytes:
    """What `details` puts before each line of a log in the engine's own form: its attributes and a space."""
    return logconfig.details(engine.plugins, container)


@contextmanager
def _end_of(container: Container) -> Iterator[int]:
    """An eventfd that is readable once no process 1 writes to the log (any more), whatever its restart policy."""
    ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        with container.changed:
            if container.state.alive:
                container.followers.append(ended)
            else:
                os.eventfd_write(ended, 1)
        yield ended
    finally:
        with container.changed:
            if ended in container.followers:
                container.followers.remove(ended)
        os.close(ended)
