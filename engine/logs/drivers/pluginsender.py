"""Sends lines to a log plugin: through a FIFO that the plugin reads, from `StartLogging` to `StopLogging`.

Run by the process beside a monitor that forwards the container's lines (`engine.monitor.forwarder`), so a plugin goes
on reading while there is no daemon. docs.docker.com/engine/extend/plugins_logging describes the protocol. The FIFO lies
in the container's directory below the exec root and goes with it. This process has it open for reading too, as dockerd
has: a plugin that ends and comes back finds what was written meanwhile, and one that does not read makes the container
wait (or lose lines, in the mode non-blocking).
"""

import contextlib
import json
import os

from engine.errors import EngineError, SystemFailure
from engine.kernel import reasons
from engine.logs.drivers import entries, sender
from engine.plugins import call
from engine.plugins.discovery import Address

_BEGIN_SECONDS, _END_SECONDS = 60.0, 5.0


class Sender(sender.Sender):
    """A FIFO, of which the plugin knows."""

    def __init__(self, values: dict[str, str]) -> None:
        """Makes the FIFO and has the plugin open it. Raises SystemFailure in dockerd's words."""
        self._address = Address(
            values["kind"],
            values["place"],
            bool(values["secure"]),
            values["authority"],
            values["certificate"],
            values["key"],
            bool(values["checked"]),
        )
        self._path = values["fifo"]
        try:
            os.mkfifo(self._path, 0o700)
            self._fifo = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            why = reasons.of(error)
            raise SystemFailure(f"error creating i/o pipe for log plugin: {values['name']}: {why}") from error
        told: call.Object = {"File": self._path, "Info": json.loads(values["info"])}
        try:
            call.call(self._address, "LogDriver.StartLogging", told, _BEGIN_SECONDS)
        except EngineError as error:
            os.close(self._fifo)
            os.unlink(self._path)
            raise SystemFailure(f"error creating logger: {error}") from error

    def fileno(self) -> int:
        """The FIFO's descriptor."""
        return self._fifo

    def send(self, stream: int, line: bytes, partial: sender.Partial | None, time_ns: int) -> None:
        """Write a line into the FIFO; waits while that is full."""
        data = memoryview(entries.entry(stream, line, partial, time_ns))
        while data:
            data = data[os.write(self._fifo, data) :]

    def end(self) -> None:
        """Tell the plugin that no more lines come; it reads what is left until the FIFO's end."""
        with contextlib.suppress(EngineError):  # it is gone, and there is nobody to tell
            call.call(self._address, "LogDriver.StopLogging", {"File": self._path}, _END_SECONDS, patience=0.0)
        os.close(self._fifo)
        with contextlib.suppress(FileNotFoundError):  # it has gone with the container's directory
            os.unlink(self._path)
