"""Serve a container's log: what is kept, and with `follow` what comes until its end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from engine.daemon.containers import paths
from engine.daemon.containers.record import Container
from engine.errors import Invalid, NotBuilt
from engine.logs import twin
from engine.logs.query import Query

UNREADABLE = frozenset({"none"})


def check(container: Container, query: Query) -> None:
    """Raise what can be said before the first byte: Invalid without a stream, NotBuilt for an unreadable driver."""
    if not query.stdout and not query.stderr:
        raise Invalid("must specify at least one of 'stdout' or 'stderr'")
    if container.host_config["LogConfig"]["Type"] in UNREADABLE:
        raise NotBuilt("configured logging driver does not support reading")


def send(engine: object, container: Container, sink: int, query: Query, follow: bool, chunked: bool) -> None:
    """Write the log to descriptor `sink`; with `follow`, until the container has ended or the sink is gone."""
    settings = engine.settings
    directory = paths.of(settings.data_root, settings.exec_root, container.id).log
    if not follow:
        twin.select(settings.muxer).send(directory, sink, query, chunked=chunked, ended_fd=None)
        return
    with _end_of(container) as ended:
        twin.select(settings.muxer).send(directory, sink, query, chunked=chunked, ended_fd=ended)


@contextmanager
def _end_of(container: Container) -> Iterator[int]:
    """An eventfd that is readable once the container does not run (any more)."""
    ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        with container.changed:
            if container.state.running:
                container.followers.append(ended)
            else:
                os.eventfd_write(ended, 1)
        yield ended
    finally:
        with container.changed:
            if ended in container.followers:
                container.followers.remove(ended)
        os.close(ended)
