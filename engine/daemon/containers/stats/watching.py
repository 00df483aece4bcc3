"""Send the resource usage of containers to clients, once or every second.

One thread samples every watched container once a second, however many clients watch it, and sends the same bytes to all
of them. The thread lives only while a client watches. It never waits for a client: what a client does not take is kept
until the next second, and meanwhile that client gets no new sample. The thread of a request only waits for its client
to leave.
"""

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable

from engine.daemon.containers.record import Container
from engine.daemon.containers.stats import samples
from engine.daemon.containers.stats.samples import NOTHING, Gauge, Sample
from engine.daemon.containers.verbs.wait import Waiter
from engine.daemon.parts import CgroupPart
from engine.daemon.runtime.worker import Worker

log = logging.getLogger(__name__)

INTERVAL = 1.0
_SEND = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_FILES_EACH = 16  # the most that a gauge keeps open


def once(engine: CgroupPart, container: Container, gone: Callable[[], bool], *, two: bool) -> bytes | None:
    """One line; with `two` samples a second apart, so that it holds a difference. None when the client has left."""
    state = container.snapshot()
    if not state.alive:
        return samples.line(container, NOTHING, NOTHING)
    with contextlib.closing(Gauge(engine, container, state, keep=False)) as gauge:
        before = now = gauge.read(samples.read_host(), time.time_ns())
        if two:
            time.sleep(INTERVAL)
            if gone():
                return None
            now = gauge.read(samples.read_host(), time.time_ns())
    return samples.line(container, now, before if two else NOTHING)


def stream(
    engine: CgroupPart, container: Container, sink: int, wait: Callable[[int], object], *, chunked: bool
) -> bool:
    """Write a line a second to descriptor `sink` until the container is removed, and then the end of the body.

    Returns False when the end could not be sent.
    wait: sleeps until a descriptor is readable; the exception that it raises when the client leaves ends the stream
    """
    with Watcher(container, sink, chunked) as watcher:
        _SAMPLER.add(engine, watcher)
        try:
            Waiter(container, "removed", exits_before=0, running_before=False).result(wait)
        finally:
            _SAMPLER.remove(watcher)
        return watcher.finish()


class Watcher:
    """One client that watches one container. The sampler calls `give`, the request's thread the rest."""

    def __init__(self, container: Container, sink: int, chunked: bool) -> None:
        self.container = container
        self.before = NOTHING  # the last sample that this client was sent
        self._socket = socket.socket(fileno=os.dup(sink))
        self._chunked = chunked
        self._owed = b""

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(self, *_failure: object) -> None:
        self._socket.close()

    def give(self, now: Sample, line: bytes) -> None:
        """Send the client this line, unless it has not yet taken the one before."""
        if not self._send():
            return
        self.before = now
        self._owed = b"%x\r\n%b\r\n" % (len(line), line) if self._chunked else line
        self._send()

    def _send(self) -> bool:
        try:
            while self._owed:
                self._owed = self._owed[self._socket.send(self._owed, _SEND) :]
        except BlockingIOError:
            return False
        except OSError:
            self._owed = b""  # the client has gone, which its request's thread notices
        return True

    def finish(self) -> bool:
        """Send what is still owed and the end of the body; False when the client does not take that now."""
        if self._chunked:
            self._owed += b"0\r\n\r\n"
        return self._send()


class _Watched:
    """A container, the clients that watch it, and its gauge."""

    def __init__(self, engine: CgroupPart, container: Container) -> None:
        self.container = container
        self.watchers: list[Watcher] = []
        self._engine = engine
        self._gauge: Gauge | None = None

    def tell(self, host: samples.Host, keep: bool) -> None:
        """Take a sample and send it to all watchers; runs in the sampler's thread."""
        now = self._read(host, keep)
        lines: dict[int, bytes] = {}  # by the id of the sample before, which nearly all watchers share
        for watcher in self.watchers:
            key = id(watcher.before)
            if key not in lines:
                lines[key] = samples.line(self.container, now, watcher.before)
            watcher.give(now, lines[key])

    def _read(self, host: samples.Host, keep: bool) -> Sample:
        state = self.container.snapshot()
        if self._gauge is not None and (not state.alive or state.pid_start != self._gauge.pid_start):
            self.close()
        if not state.alive or not state.pid:
            return NOTHING
        if self._gauge is None:
            self._gauge = Gauge(self._engine, self.container, state, keep=keep)
        return self._gauge.read(host, time.time_ns())

    def close(self) -> None:
        """Close the gauge's descriptors."""
        if self._gauge is not None:
            self._gauge.close()
            self._gauge = None


class _Sampler:
    """All watched containers, and the thread that samples them."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self._changed = threading.Condition()
        self._worker = Worker("stats", self._run)

    def add(self, engine: CgroupPart, watcher: Watcher) -> None:
        """Begin to send samples to this watcher; the sampler's thread starts with the first one."""
        with self._changed:
            container = watcher.container
            if container.id not in self._watched:
                self._watched[container.id] = _Watched(engine, container)
            self._watched[container.id].watchers.append(watcher)
            self._worker.wake()

    def remove(self, watcher: Watcher) -> None:
        """Send this watcher no more samples; when this returns the sampler does not know it."""
        with self._changed:
            watched = self._watched[watcher.container.id]
            watched.watchers.remove(watcher)
            if not watched.watchers:
                watched.close()
                del self._watched[watcher.container.id]
            self._changed.notify()

    def _run(self) -> None:
        next_at = time.monotonic()
        while True:
            with self._changed:
                while self._watched and (left := next_at - time.monotonic()) > 0:
                    self._changed.wait(left)
                if not self._watched:
                    self._worker.leave()
                    return
                self._sample()
            # A late sample is not caught up: the next one is due a second after the last was due, or half a second
            # after it was taken if that is later.
            next_at = max(next_at + INTERVAL, time.monotonic() + INTERVAL / 2)

    def _sample(self) -> None:
        """Sample every watched container; the caller's lock keeps watchers from coming and going meanwhile."""
        host = samples.read_host()
        keep = len(self._watched) * _FILES_EACH < _most_files() // 2
        for watched in self._watched.values():
            if watched.container.removed:
                continue  # the requests' threads know, and end
            try:
                watched.tell(host, keep)
            except Exception:  # one container's trouble must not end the watch over all
                log.exception("container %s: its statistics could not be read", watched.container.id)


def _most_files() -> int:
    import resource  # an extension module, loaded only where a client watches

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


_SAMPLER = _Sampler()
