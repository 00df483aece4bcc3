"""The log driver `syslog`: checks its options and sends each line as a syslog message, in the formats of dockerd.

`check` and `forward` are for the daemon's request threads, `Sender` for the process beside a monitor that forwards its
lines (`engine.monitor.forwarder`). A line that cannot be delivered is lost: a logger must not end a container.
"""

import contextlib
import os
import socket
import time

from engine.errors import Invalid, NotBuilt, SystemFailure, Unavailable
from engine.literals import natural
from engine.logs import attributes
from engine.logs.drivers import cached, sender
from engine.logs.target import Config, LogTarget, Place

_ADDRESSES = ("tcp+tls://", "tcp://", "udp://", "unix://", "unixgram://")
_TLS = ("syslog-tls-ca-cert", "syslog-tls-cert", "syslog-tls-key", "syslog-tls-skip-verify")
OPTIONS = attributes.OPTIONS | {"syslog-address", "syslog-facility", "syslog-format", *_TLS}
NAMED = "syslog log driver"
DEFAULT_TAG = "{{.ID}}"
_PORT = 514

# RFC 5424, 6.2.1, by the names that dockerd knows.
_FACILITIES = {
    name: number
    for number, name in enumerate(
        ("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp")
    )
} | {f"local{number}": 16 + number for number in range(8)}
_HIGHEST_FACILITY = 23
_SEVERITIES = {1: 6, 2: 3}  # stdout: informational, stderr: error
_LOCAL_SOCKETS = ("/dev/log", "/var/run/syslog", "/var/run/log")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def check(config: Config) -> None:
    """Raise Invalid for a value that create refuses, in dockerd's words; NotBuilt for TLS."""
    if any(option in config for option in _TLS) or config.get("syslog-address", "").startswith("tcp+tls://"):
        raise NotBuilt("HostConfig.LogConfig: syslog over TLS is not built in this engine")
    kind, place = _address(config.get("syslog-address", ""))
    if kind in ("unix", "unixgram"):
        try:
            os.stat(place)
        except OSError as error:
            raise Invalid(f"stat {place}: {(error.strerror or '').lower()}") from error
    _facility(config.get("syslog-facility", ""))
    if config.get("syslog-format", "") not in _FORMS:
        raise Invalid("Invalid syslog format")


def target(config: Config, described: attributes.Described, place: Place) -> LogTarget:
    """The syslog, and the log kept beside. Raises Invalid in dockerd's words."""
    return cached.target("syslog", forward(config, described), config, place)


form, file, details = cached.form, cached.file, cached.details


def forward(config: Config, described: attributes.Described) -> dict[str, str]:
    """What a `Sender` is made from. Raises Invalid for a tag that makes no sense."""
    kind, place = _address(config.get("syslog-address", ""))
    if kind in ("tcp", "udp") and not place.isascii():
        place = _ascii(place)
    return {
        "kind": kind,
        "place": place,
        "facility": str(_facility(config.get("syslog-facility", ""))),
        "form": config.get("syslog-format", ""),
        "tag": attributes.tag(config.get("tag") or DEFAULT_TAG, described),
    }


def _address(text: str) -> tuple[str, str]:
    """(kind, path or host:port); two empty texts for this host's own socket."""
    if not text:
        return "", ""
    if not text.startswith(_ADDRESSES):
        raise Invalid(f"syslog-address should be in form proto://address, got {text}")
    kind, _, place = text.partition("://")
    if kind in ("unix", "unixgram"):
        return kind, place
    host = place.partition("/")[0]
    after_host = host.rpartition("]")[2] if host.startswith("[") else host
    return kind, host if ":" in after_host else f"{host}:{_PORT}"


def _ascii(place: str) -> str:
    """The same host and port, with the host's name in the ASCII form for DNS (RFC 3490)."""
    host, _, port = place.rpartition(":")
    try:
        return f"{host.encode('idna').decode()}:{port}"
    except UnicodeError as error:
        raise Invalid(f"invalid syslog address: {place}") from error


def _facility(text: str) -> int:
    if not text:
        return _FACILITIES["daemon"]
    if text in _FACILITIES:
        return _FACILITIES[text]
    number = natural(text, _HIGHEST_FACILITY)
    if number is None:
        raise Invalid("invalid syslog facility")
    return number


def _stamp(now: time.struct_time) -> str:
    return f"{_MONTHS[now.tm_mon - 1]} {now.tm_mday:2d} {now.tm_hour:02d}:{now.tm_min:02d}:{now.tm_sec:02d}"


def _zoned(now_ns: int, micro: bool) -> str:
    now = time.localtime(now_ns // 1_000_000_000)
    minutes = now.tm_gmtoff // 60
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}" if minutes else "Z"
    fraction = f".{now_ns // 1000 % 1_000_000:06d}" if micro else ""
    return f"{now.tm_year:04d}-{now.tm_mon:02d}-{now.tm_mday:02d}T{_stamp(now)[7:]}{fraction}{zone}"


def _unix(priority: int, now_ns: int, host: str, tag: str, pid: int) -> str:
    return f"<{priority}>{_stamp(time.localtime(now_ns // 1_000_000_000))} {tag}[{pid}]: "


def _rfc3164(priority: int, now_ns: int, host: str, tag: str, pid: int) -> str:
    return f"<{priority}>{_stamp(time.localtime(now_ns // 1_000_000_000))} {host} {tag}[{pid}]: "


def _rfc5424(priority: int, now_ns: int, host: str, tag: str, pid: int) -> str:
    return f"<{priority}>1 {_zoned(now_ns, micro=False)} {host} {tag} {pid} {tag} - "


def _rfc5424_micro(priority: int, now_ns: int, host: str, tag: str, pid: int) -> str:
    return f"<{priority}>1 {_zoned(now_ns, micro=True)} {host} {tag} {pid} {tag} - "


_FORMS = {"": _unix, "rfc3164": _rfc3164, "rfc5424": _rfc5424, "rfc5424micro": _rfc5424_micro}

_Address = str | tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""What connect(2) takes: a path, or what getaddrinfo(3) has found."""


class Sender(sender.Sender):
    """A connection to a syslog server; when it has broken, each message tries once to connect again."""

    def __init__(self, values: dict[str, str]) -> None:
        """Connects. Raises SystemFailure in dockerd's words."""
        self._kind, self._place = values["kind"], values["place"]
        self._facility, self._tag = int(values["facility"]), values["tag"]
        self._form = _FORMS[values["form"]]
        self._host = os.uname().nodename
        try:
            self._socket: socket.socket | None = self._connected()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise SystemFailure(f"dial {self._kind} {self._place}: connect: {reason}") from error
        except ValueError as error:  # no host can have this name: it has a zero byte, or IDNA does not take it
            raise SystemFailure(f"dial {self._kind}: lookup {self._place}: no such host") from error

    def fileno(self) -> int:
        """The connection's descriptor; -1 while it is broken."""
        return self._socket.fileno() if self._socket is not None else -1

    def send(self, stream: int, line: bytes, partial: sender.Partial | None) -> None:
        """Send a line as one message; an empty line is not sent, as in dockerd."""
        if not line:
            return
        priority = self._facility * 8 + _SEVERITIES[stream]
        head = self._form(priority, time.time_ns(), self._host, self._tag, os.getpid())
        message = head.encode("utf-8", "surrogateescape") + line + b"\n"
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the server has gone, and may be back
                self._socket.sendall(message)
                return
            self._socket.close()
            self._socket = None
        with contextlib.suppress(OSError, SystemFailure, Unavailable):  # the line is lost, the next one tries again
            self._socket = self._connected()
            self._socket.sendall(message)

    def _connected(self) -> socket.socket:
        if not self._kind:
            return self._connected_here()
        if self._kind in ("unix", "unixgram"):
            kind = socket.SOCK_STREAM if self._kind == "unix" else socket.SOCK_DGRAM
            return _connect(socket.AF_UNIX, kind, self._place)
        host, _, port = self._place.rpartition(":")
        kind = socket.SOCK_DGRAM if self._kind == "udp" else socket.SOCK_STREAM
        # As bytes: a text would be encoded by `encodings.idna`, which a long-lived process may not find on disk any
        # more.
        found = socket.getaddrinfo(host.strip("[]").encode() or b"localhost", port, 0, kind)
        family, _, _, _, address = found[0]
        return _connect(family, kind, address)

    @staticmethod
    def _connected_here() -> socket.socket:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            for path in _LOCAL_SOCKETS:
                with contextlib.suppress(OSError):  # it is one of several
                    return _connect(socket.AF_UNIX, kind, path)
        raise Unavailable("Unix syslog delivery error")


def _connect(family: int, kind: int, address: _Address) -> socket.socket:
    made = socket.socket(family, kind | socket.SOCK_CLOEXEC)
    try:
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made
