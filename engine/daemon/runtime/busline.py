"""One connection to a D-Bus peer over a Unix socket: the greeting, and calls with their answers.

Used by one thread, for one request, and closed by it. So nobody has to read what a peer sends later, and a peer that
was restarted is met again by the next connection. Each wait ends at the moment that the maker of the line has named.
The greeting is SASL's EXTERNAL (D-Bus Specification, "Authentication Protocol"): the kernel tells the peer who
connects. A bus in between wants a `Hello` first; systemd's own socket does not.

The whole greeting is one piece, and the first call follows the peer's answer. systemd waits for ever for a call that it
reads together with the greeting's end: sd-bus keeps such bytes, and looks at them only when more come.
"""

import socket
import time
from collections.abc import Callable

from engine.errors import Invalid, SystemFailure
from engine.kernel import userns
from engine.protocols import dbus
from engine.protocols.dbus import Message

_LONGEST_LINE = 1024
_PIECE = 65536


class Disconnected(SystemFailure):
    """There is no peer at the address, or it has closed the connection: another connection may succeed."""


class Silent(SystemFailure):
    """The peer has not answered in time."""


class Refused(SystemFailure):
    """The peer has answered a call with an error. name: of the error, as `org.freedesktop.systemd1.UnitExists`"""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words or name)
        self.name = name


class Line:
    """A connection, greeted and ready for calls; a context manager.

    destination: the bus name that calls go to; latest: the time of `time.monotonic` at which waiting ends
    """

    def __init__(self, address: str, destination: str, latest: float) -> None:
        """Connect to the socket at this path. Raises Disconnected, Silent, SystemFailure."""
        self._destination = destination
        self._latest = latest
        self._serial = 0
        self._read = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._wait(lambda: self._socket.connect(address))
            self._greet()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> "Line":
        """Return the line itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._socket.close()

    def call(
        self, path: str, interface: str, member: str, signature: str = "", *values: object, destination: str = ""
    ) -> tuple[object, ...]:
        """Call a method and return the values of its answer. Raises Refused, Disconnected, Silent, Invalid."""
        self._serial += 1
        message = Message(
            dbus.CALL,
            self._serial,
            path=path,
            interface=interface,
            member=member,
            destination=destination or self._destination,
            signature=signature,
            body=values,
        )
        data = dbus.encode(message)
        self._wait(lambda: self._socket.sendall(data))
        while True:
            answer = self._message()
            if answer.reply_to != self._serial:  # systemd sends its signals to whoever is connected
                continue
            if answer.kind == dbus.RETURN:
                return answer.body
            if answer.kind == dbus.ERROR:
                words = answer.body[0] if answer.body and isinstance(answer.body[0], str) else ""
                raise Refused(answer.error, words)

    def _greet(self) -> None:
        identity = str(userns.hosts_number()).encode().hex().encode()
        self._wait(lambda: self._socket.sendall(b"\0AUTH EXTERNAL " + identity + b"\r\nBEGIN\r\n"))
        while b"\r\n" not in self._read:
            if len(self._read) > _LONGEST_LINE:
                raise SystemFailure("a D-Bus peer's greeting has no end")
            self._more()
        line, _, self._read = self._read.partition(b"\r\n")
        if not line.startswith(b"OK "):
            raise SystemFailure(f"a D-Bus peer refuses this process: {line[:80].decode('ascii', 'replace')}")

    def _message(self) -> Message:
        try:
            while len(self._read) < dbus.START:
                self._more()
            size = dbus.size(self._read[: dbus.START])
            while len(self._read) < size:
                self._more()
            data, self._read = self._read[:size], self._read[size:]
            return dbus.decode(data)
        except Invalid as error:
            raise SystemFailure(f"a D-Bus peer sent what is no message: {error}") from error

    def _more(self) -> None:
        piece = self._wait(lambda: self._socket.recv(_PIECE))
        if not piece:
            raise Disconnected("a D-Bus peer has closed the connection")
        self._read += piece

    def _wait(self, step: Callable[[], bytes | None]) -> bytes:
        """Do something with the socket, until the latest moment."""
        left = self._latest - time.monotonic()
        if left <= 0:
            raise Silent("a D-Bus peer does not answer")
        self._socket.settimeout(left)
        try:
            return step() or b""
        except (TimeoutError, BlockingIOError) as error:  # the second: connect(2), while the peer accepts nobody
            raise Silent("a D-Bus peer does not answer") from error
        except OSError as error:
            raise Disconnected(f"a D-Bus peer cannot be reached: {error.strerror}") from error
