"""A systemd for tests: the socket of its manager, served by threads that speak D-Bus by jeepney, not by the engine."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import jeepney
from jeepney.low_level import HeaderFields, Message, MessageType, Parser

MANAGER = jeepney.DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")
EXISTS = "org.freedesktop.systemd1.UnitExists"


@dataclass
class Systemd:
    """The socket `path`, and what was asked for; closed by its maker.

    units: the properties of each unit; calls: the names of the methods called, in order
    started, changed: called with a unit's name and properties
    cut: how many connections are closed without an answer before the next call is answered
    state: of the system; cgroup: the manager's; silent: calls get no answers
    busy: the seconds for which it does something else before it reads a piece of a greeting
    bus: it is a bus, which sends no signals to those who have not asked for them
    """

    path: Path
    bus: bool = False
    cut: int = 0
    silent: bool = False
    busy: float = 0.0
    state: str = "running"
    cgroup: str = ""
    refusals: dict[str, tuple[str, str]] = field(default_factory=dict)
    units: dict[str, dict[str, object]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    started: Callable[[str, dict[str, object]], None] = lambda _name, _properties: None
    changed: Callable[[str, dict[str, object]], None] = lambda _name, _properties: None

    def __post_init__(self) -> None:
        """Listen."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._jobs = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._listener.listen()
        self._threads[0].start()

    def close(self) -> None:
        """Go away, like a systemd that executes itself anew; the socket's file stays."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # it was shut down
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionError):  # who has the answer leaves before the signals after it
            connection.settimeout(10)
            if not self._greet(connection):
                return
            parser = Parser()
            while data := connection.recv(4096):
                parser.add_data(data)
                while (message := parser.get_next_message()) is not None:
                    member = message.header.fields[HeaderFields.member]
                    self.calls.append(member)
                    if self.cut:
                        self.cut -= 1
                        return
                    if not self.silent:
                        self._answer(connection, message, member)

    def _greet(self, connection: socket.socket) -> bool:
        """Read the greeting in pieces, and overlook what comes with its end, as sd-bus does. A signal follows."""
        text = b""
        answered = 0
        while b"BEGIN\r\n" not in text:
            time.sleep(self.busy)
            if not (piece := connection.recv(256)):
                return False
            text += piece
            if not answered and b"\r\n" in text:
                if not text.startswith(b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n"):
                    connection.sendall(b"REJECTED EXTERNAL\r\n")
                    return False
                answered = connection.send(b"OK 0123456789abcdef0123456789abcdef\r\n")
        if not self.bus:
            self._send(connection, jeepney.new_signal(MANAGER, "Reloading", "b", (False,)))
        return True

    def _answer(self, connection: socket.socket, message: Message, member: str) -> None:
        if member in self.refusals:
            name, words = self.refusals[member]
            self._send(connection, jeepney.new_error(message, name, "s", (words,)))
            return
        signals: list[Message] = []
        signature, body = None, ()
        if member == "StartTransientUnit":
            unit, _, properties, _ = message.body
            if unit in self.units:
                self._send(connection, jeepney.new_error(message, EXISTS, "s", (f"Unit {unit} was already loaded.",)))
                return
            self.units[unit] = dict(properties)
            self.started(unit, self.units[unit])
            self._jobs += 1
            job = f"/org/freedesktop/systemd1/job/{self._jobs}"
            signature, body = "o", (job,)
            signals = [jeepney.new_signal(MANAGER, "JobNew", "uos", (self._jobs, job, unit))]
            signals += [jeepney.new_signal(MANAGER, "JobRemoved", "uoss", (self._jobs, job, unit, "done"))]
        elif member == "SetUnitProperties":
            unit, _, properties = message.body
            self.units[unit] |= dict(properties)
            self.changed(unit, dict(properties))
        elif member == "StopUnit":
            if self.units.pop(message.body[0], None) is None:
                self._send(connection, jeepney.new_error(message, "org.freedesktop.systemd1.NoSuchUnit", "s", ("no",)))
                return
            signature, body = "o", ("/org/freedesktop/systemd1/job/1",)
        elif member == "Get":
            told = {"SystemState": self.state, "ControlGroup": self.cgroup}
            signature, body = "v", (("s", told[message.body[1]]),)
        elif member == "GetUnit":
            signature, body = "o", ("/org/freedesktop/systemd1/unit/x",)
        for signal in signals if not self.bus else ():  # signals come before the answer, and after it
            self._send(connection, signal)
        self._send(connection, jeepney.new_method_return(message, signature, body))
        for signal in signals if not self.bus else ():
            self._send(connection, signal)

    def _send(self, connection: socket.socket, message: Message) -> None:
        if message.header.message_type is not MessageType.signal and self.bus:
            message.header.fields[HeaderFields.sender] = ":1.0"
        data = message.serialise(serial=1)
        for at in range(0, len(data), 100):  # whoever reads must take a message in pieces
            connection.sendall(data[at : at + 100])
