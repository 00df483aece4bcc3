"""The log driver `syslog`: checks its options and sends each line as a syslog message, in the formats of dockerd.

`check` and `forward` are for the daemon's request threads, `Sender` for the process beside a monitor that forwards its
lines (`engine.monitor.forwarder`). A line that cannot be delivered is lost: a logger must not end a container.
"""

import contextlib
import os
import socket
import time

from engine.asking import dial
from engine.errors import Invalid, SystemFailure, Unavailable
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late
from engine.literals import natural
from engine.logs import attributes
from engine.logs.drivers import cached, sender
from engine.logs.target import Config, LogTarget, Place

if TYPE_CHECKING:  # loaded where TLS is asked for
    import ssl

    from engine.asking import secure
else:
    secure = late("engine.asking.secure")

_ADDRESSES = ("tcp+tls://", "tcp://", "udp://", "unix://", "unixgram://")
_TLS_FILES = ("syslog-tls-ca-cert", "syslog-tls-cert", "syslog-tls-key")
_UNCHECKED = "syslog-tls-skip-verify"  # whatever its value is, as in dockerd
_TLS = (*_TLS_FILES, _UNCHECKED)
OPTIONS = attributes.OPTIONS | {"syslog-address", "syslog-facility", "syslog-format", *_TLS}
UNKNOWN = "unknown log opt '%s' for syslog log driver"
DEFAULT_TAG = "{{.ID}}"
_PORT = 514
_TLS_KIND = "tcp+tls"
_SECONDS = 30.0  # to connect
_LEAVE_SECONDS = 2.0  # for the server to close a stream that has ended

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
    """Raise Invalid for a value that create refuses, in dockerd's words."""
    kind, place = _address(config.get("syslog-address", ""))
    if kind in ("unix", "unixgram"):
        try:
            os.stat(place)
        except OSError as error:
            raise Invalid(f"stat {place}: {reasons.of(error)}") from error
    _facility(config.get("syslog-facility", ""))
    if config.get("syslog-format", "") not in _FORMS:
        raise Invalid("Invalid syslog format")


def target(config: Config, described: attributes.Described, place: Place) -> LogTarget:
    """The syslog, and the log kept beside. Raises Invalid in dockerd's words."""
    return cached.target("syslog", forward(config, described), config, described, place)


form, file, details = cached.form, cached.file, cached.details


def forward(config: Config, described: attributes.Described) -> dict[str, str]:
    """What a `Sender` is made from. Raises Invalid for a tag that makes no sense."""
    kind, place = _address(config.get("syslog-address", ""))
    if kind in ("tcp", "udp", _TLS_KIND) and not place.isascii():
        place = _ascii(place)
    given = {option: config[option] for option in _TLS if option in config} if kind == _TLS_KIND else {}
    return {
        **given,
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

# With TLS these forms have each message's length before it (RFC 5425, 4.3).
_COUNTED = frozenset({"rfc5424", "rfc5424micro"})


class Sender(sender.Sender):
    """A connection to a syslog server; when it has broken, each message tries once to connect again."""

    def __init__(self, values: dict[str, str]) -> None:
        """Connects. Raises SystemFailure in dockerd's words."""
        self._kind, self._place = values["kind"], values["place"]
        self._facility, self._tag = int(values["facility"]), values["tag"]
        self._form = _FORMS[values["form"]]
        self._counted = self._kind == _TLS_KIND and values["form"] in _COUNTED
        self._host = os.uname().nodename
        self._tls = _tls(values) if self._kind == _TLS_KIND else None
        self._socket: socket.socket | None = self._connected()

    def fileno(self) -> int:
        """The connection's descriptor; -1 while it is broken."""
        return self._socket.fileno() if self._socket is not None else -1

    def send(self, stream: int, line: bytes, partial: sender.Partial | None, time_ns: int) -> None:
        """Send a line as one message, with the time of its sending; an empty line is not sent, as in dockerd."""
        if not line:
            return
        priority = self._facility * 8 + _SEVERITIES[stream]
        head = self._form(priority, time.time_ns(), self._host, self._tag, os.getpid())
        message = head.encode("utf-8", "surrogateescape") + line + b"\n"
        if self._counted:
            message = b"%d %b" % (len(message), message)
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the server has gone, and may be back
                self._socket.sendall(message)
                return
            self._socket.close()
            self._socket = None
        with contextlib.suppress(OSError, SystemFailure, Unavailable):  # the line is lost, the next one tries again
            self._socket = self._connected()
            self._socket.sendall(message)

    def end(self) -> None:
        """Let the server read the last message."""
        if self._socket is not None and self._socket.type == socket.SOCK_STREAM:
            dial.leave(self._socket, _LEAVE_SECONDS)

    def _connected(self) -> socket.socket:
        if not self._kind:
            return self._connected_here()
        if self._tls is None:
            return dial.dial(self._kind, self._place, _SECONDS)
        host = self._place.rpartition(":")[0].strip("[]")
        return secure.secured(dial.dial("tcp", self._place, _SECONDS), self._tls, host, _SECONDS)

    @staticmethod
    def _connected_here() -> socket.socket:
        for kind in ("unixgram", "unix"):
            for path in _LOCAL_SOCKETS:
                with contextlib.suppress(SystemFailure):  # it is one of several
                    return dial.dial(kind, path, _SECONDS)
        raise Unavailable("Unix syslog delivery error")


def _tls(values: dict[str, str]) -> "ssl.SSLContext":
    authority, certificate, key = (values.get(option, "") for option in _TLS_FILES)
    return secure.context(secure.Certificates(authority, certificate, key, _UNCHECKED not in values))
