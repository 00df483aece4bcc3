"""Log drivers that are plugins: what a container's lines are sent to, and reading a log back from such a plugin.

Used by the daemon's request threads. A plugin that can be read serves `docker logs` itself; beside any other one the
engine keeps a copy, as dockerd does. What a plugin tells is hostile: bounded, and taken for nothing but lines.
"""

import json
import select
from collections.abc import Iterator
from typing import Annotated, TypedDict

from engine.annotating import Any
from engine.daemon.plugins.activation import LOGS, Plugin, Plugins
from engine.errors import EngineError, Invalid, NotFound, SystemFailure
from engine.logs import format
from engine.logs.attributes import Described
from engine.logs.drivers import cached, options
from engine.logs.jsonwriter import rfc3339_nano
from engine.logs.query import Query
from engine.logs.sink import GONE, Sink
from engine.logs.target import PLUGIN, Config, Forward, LogTarget, Place
from engine.plugins import call
from engine.protocols import protobuf

_LARGEST = 1 << 20  # bytes of one entry
_SECONDS = 30.0  # for an answer to begin
_LAST_WORDS_MS = 5000  # how long a plugin may be silent after the container has ended
_NEVER = "0001-01-01T00:00:00Z"
_STREAMS = {"stdout": format.STDOUT, "stderr": format.STDERR}


class _Entry(TypedDict):
    """A line (moby's daemon/logger/internal/logdriver/entry.proto)."""

    source: Annotated[str, 1]
    time_nano: Annotated[int, 2]
    line: Annotated[bytes, 3]


class Plugged:
    """The log driver of this name, as `engine.logs.drivers.driver` describes drivers."""

    OPTIONS = None
    UNKNOWN = ""

    def __init__(self, plugins: Plugins, name: str) -> None:
        self._plugins, self._name = plugins, name

    def _plugin(self) -> Plugin:
        try:
            return self._plugins.get(self._name, LOGS)
        except (NotFound, SystemFailure) as error:
            raise Invalid(f"error looking up logging plugin {self._name}: {error}") from error

    def check(self, _config: Config, /) -> None:
        """Raise Invalid where there is no such plugin. Its options are for it to judge."""
        self._plugin()

    def target(self, config: Config, described: Described, place: Place, /) -> LogTarget:
        """The plugin, and the log kept beside if it cannot be read."""
        address = self._plugin().address
        values = {
            "name": self._name,
            "kind": address.kind,
            "place": address.place,
            "secure": "true" if address.secure else "",
            "authority": address.authority,
            "certificate": address.certificate,
            "key": address.key,
            "checked": "true" if address.checked else "",
            "fifo": f"{place.run}/logging",
            "info": json.dumps(_info(config, described)),
        }
        if self._can_be_read():
            return LogTarget("", forward=Forward("plugin", tuple(values.items()), options.ring(config)))
        return cached.target("plugin", values, config, described, place)

    def form(self, config: Config, /) -> str:
        """Whether the plugin is read, or the copy."""
        return PLUGIN if self._can_be_read() else cached.form(config)

    def file(self, container_id: str, /) -> str:
        """inspect shows no LogPath."""
        return cached.file(container_id)

    def details(self, config: Config, described: Described, /) -> dict[str, str]:
        """The labels and variables that the options name."""
        return cached.details(config, described)

    def _can_be_read(self) -> bool:
        try:
            told = self._plugin().call("LogDriver.Capabilities", {}).get("Cap")
        except EngineError:  # a plugin need not have this method
            return False
        return isinstance(told, dict) and told.get("ReadLogs") is True

    def send(
        self, config: Config, described: Described, sink_fd: int, query: Query, chunked: bool, ended_fd: int | None
    ) -> None:
        """Write the lines that the plugin tells of to `sink_fd`; with `ended_fd`, until it is readable and the plugin
        is silent.

        Raises SystemFailure where the plugin cannot be asked; OSError for anything but a client that has left.
        """
        wanted: dict[str, Any] = {
            "Since": rfc3339_nano(query.since_ns).decode() if query.since_ns > 0 else _NEVER,
            "Until": rfc3339_nano(query.until_ns).decode() if query.until_ns > 0 else _NEVER,
            "Tail": -1 if query.tail is None else query.tail,
            "Follow": ended_fd is not None,
        }
        sink = Sink(sink_fd, chunked)
        told = {"Info": _info(config, described), "Config": wanted}
        try:
            with call.streamed(self._plugin().address, "LogDriver.ReadLogs", told, _SECONDS) as answer:
                pieces = answer.pieces(lambda: _awaited(answer, sink, sink_fd, ended_fd))
                for shown in _shown(_entries(pieces), query):
                    sink.put(shown)
            sink.finish()
        except Invalid as error:
            raise SystemFailure(f"error getting log reader: {error}") from error
        except OSError as error:
            if error.errno not in GONE:
                raise


def _awaited(answer: call.Streamed, sink: Sink, sink_fd: int, ended_fd: int | None) -> bool:
    """Wait for more of the plugin's answer; False when no more is wanted."""
    sink.flush()
    poll = select.poll()
    poll.register(answer.fileno(), select.POLLIN)
    poll.register(sink_fd, 0)
    ended = False
    while True:
        if ended_fd is not None and not ended:
            poll.register(ended_fd, select.POLLIN)
        limit = None if ended_fd is not None and not ended else _LAST_WORDS_MS
        ready = {fd for fd, _ in poll.poll(limit)}
        if answer.fileno() in ready:
            return True
        if not ready or sink_fd in ready:
            return False
        assert ended_fd is not None  # it is what is readable
        poll.unregister(ended_fd)
        ended = True


def _entries(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The entries of an answer, each without its length. Raises Invalid."""
    held = b""
    for piece in pieces:
        held += piece
        while len(held) >= 4:
            size = int.from_bytes(held[:4], "big")
            if size > _LARGEST:
                raise Invalid("error decoding log message: it is too long")
            if len(held) < 4 + size:
                break
            yield held[4 : 4 + size]
            held = held[4 + size :]


def _shown(found: Iterator[bytes], query: Query) -> Iterator[bytes]:
    """The lines of these entries as the client wants them; a plugin need not have chosen them."""
    for data in found:
        told = protobuf.decode(_Entry, data)
        stream, moment, line = _STREAMS.get(told["source"]), told["time_nano"], told["line"]
        if stream not in query.streams or moment < query.first_ns:
            continue
        if moment > query.last_ns:
            return
        text = (format.stamp(moment) if query.timestamps else b"") + query.prefix + line
        yield text if query.tty else format.FRAME.pack(stream, len(text)) + text


def _info(config: Config, described: Described) -> dict[str, Any]:
    """What dockerd tells a plugin of a container (logger.Info)."""
    return {
        "Config": config,
        "ContainerID": described.id,
        "ContainerName": f"/{described.name}",
        "ContainerEntrypoint": described.path,
        "ContainerArgs": list(described.args),
        "ContainerImageID": described.image_id,
        "ContainerImageName": described.image,
        "ContainerCreated": rfc3339_nano(described.created_ns).decode(),
        "ContainerEnv": list(described.env),
        "ContainerLabels": described.labels,
        "LogPath": "",
        "DaemonName": "docker",
    }
