"""The log driver `journald`: sends each line to systemd's journal by its native protocol, with dockerd's fields.

`forward` is for the daemon's request threads, `Sender` for the process beside a monitor that forwards its lines
(`engine.monitor.forwarder`). systemd.io/JOURNAL_NATIVE_PROTOCOL defines the format.
"""

import contextlib
import errno
import fcntl
import os
import re
import socket

from engine.errors import SystemFailure
from engine.logs import attributes, jsonwriter
from engine.logs.drivers import cached, sender
from engine.logs.target import Config, LogTarget, Place

OPTIONS = attributes.OPTIONS
UNKNOWN = "unknown log opt '%s' for journald log driver"
DEFAULT_TAG = "{{.ID}}"
SOCKET = "/run/systemd/journal/socket"
_PRIORITIES = {1: "6", 2: "3"}  # syslog(3): info for stdout, err for stderr
_SHORT = 12
_SEALS = 0x2 | 0x4 | 0x8  # F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE
_F_ADD_SEALS = 1033


def check(_config: Config) -> None:
    """Create looks at none of its values, as in dockerd."""


def target(config: Config, described: attributes.Described, place: Place) -> LogTarget:
    """The journal, and the log kept beside. Raises Invalid in dockerd's words."""
    return cached.target("journald", forward(config, described), config, described, place)


form, file, details = cached.form, cached.file, cached.details


def forward(config: Config, described: attributes.Described) -> dict[str, str]:
    """What a `Sender` is made from. Raises Invalid for a tag or a pattern that makes no sense."""
    tag = attributes.tag(config.get("tag") or DEFAULT_TAG, described)
    values = {
        "CONTAINER_ID": described.id[:_SHORT],
        "CONTAINER_ID_FULL": described.id,
        "CONTAINER_NAME": described.name,
        "CONTAINER_TAG": tag,
        "IMAGE_NAME": described.image,
        "SYSLOG_IDENTIFIER": tag,
    }
    return values | {field_name(name): value for name, value in attributes.extra(config, described).items()}


def field_name(name: str) -> str:
    """A label's or a variable's name as the journal takes it: capitals, digits and, except at its beginning, `_`."""
    capitals = "".join(letter.upper() if letter.isascii() else "_" for letter in name)
    return re.sub(r"[^A-Z0-9]", "_", capitals).lstrip("_")


def entry(fields: dict[str, bytes]) -> bytes:
    """The datagram of one entry. A value of several lines comes with its size."""
    pieces = []
    for name, value in fields.items():
        if b"\n" in value:
            pieces.append(b"%b\n%b%b\n" % (name.encode(), len(value).to_bytes(8, "little"), value))
        else:
            pieces.append(b"%b=%b\n" % (name.encode(), value))
    return b"".join(pieces)


class Sender(sender.Sender):
    """A connection to the journal."""

    def __init__(self, values: dict[str, str], path: str = SOCKET) -> None:
        """Connects. Raises SystemFailure in dockerd's words where there is no journal."""
        self._path = path
        self._fields = {name: value.encode("utf-8", "surrogateescape") for name, value in values.items() if name}
        try:
            self._socket = _connected(path)
        except OSError as error:
            raise SystemFailure("journald is not enabled on this host") from error

    def fileno(self) -> int:
        """The connection's descriptor."""
        return self._socket.fileno()

    def send(self, stream: int, line: bytes, partial: sender.Partial | None, time_ns: int) -> None:
        """Send a line as one entry."""
        fields = {"MESSAGE": line, "PRIORITY": _PRIORITIES[stream].encode(), **self._fields}
        fields["SYSLOG_TIMESTAMP"] = jsonwriter.rfc3339_nano(time_ns)
        if partial is not None:
            identity, number, last = partial
            fields["CONTAINER_PARTIAL_ID"] = identity.encode()
            fields["CONTAINER_PARTIAL_ORDINAL"] = str(number).encode()
            fields["CONTAINER_PARTIAL_LAST"] = b"true" if last else b"false"
            if not last:
                fields["CONTAINER_PARTIAL_MESSAGE"] = b"true"
        data = entry(fields)
        try:
            self._put(data)
        except OSError:
            # The journal was restarted: try once more. If that fails the line is lost, since a logger must not end a
            # container.
            self._socket.close()
            with contextlib.suppress(OSError):
                self._socket = _connected(self._path)
                self._put(data)

    def _put(self, data: bytes) -> None:
        try:
            self._socket.send(data)
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise
            self._put_large(data)

    def _put_large(self, data: bytes) -> None:
        memory = os.memfd_create("journal-entry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(data)
            fcntl.fcntl(memory, _F_ADD_SEALS, _SEALS)
            socket.send_fds(self._socket, [b""], [memory])
        finally:
            os.close(memory)


def _connected(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return made
