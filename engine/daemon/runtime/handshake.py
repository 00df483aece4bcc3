"""Waiting for the messages of a monitor while a container or exec starts or is adopted, and the errors of that.

Runs in the threads that start a container or an exec, or that adopt one after a restart of the daemon. It holds no
lock, because it waits. Each wait has a time limit: the monitor may be stopped, or be held up by a disk.
"""

import logging
import os
import socket
import time

from engine.annotating import TypeVar
from engine.errors import Invalid, SystemFailure
from engine.wire import codec, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import Exited, Failed, Message, Started, Warned

log = logging.getLogger(__name__)

T = TypeVar("T")

START_SECONDS = 120.0
"""The most seconds from one message of a monitor to the next while a container starts. The longest step is a mount
whose server does not answer; the kernel gives most of those up in less time. No other step takes nearly as long."""


class MonitorLost(SystemFailure):
    """The monitor has died before the container or exec ran."""


class TooSlow(SystemFailure):
    """A monitor has not sent the expected message in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the start was given up after {seconds:.0f} seconds without a sign of life: a mount, a disk or the host "
            "does not answer"
        )


class SilentMonitor(SystemFailure):
    """A monitor has not answered in time; `linked`: there is a link, and once it is kept the monitor's end is seen."""

    def __init__(self, linked: bool) -> None:
        super().__init__("its monitor does not answer")
        self.linked = linked


class StartFailure(SystemFailure):
    """Process 1 failed before its execve; `failed` is the monitor's message."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.text)
        self.failed = failed


def expect(link: Channel, kind: type[T], name: str, seconds: float | None = None) -> T:
    """The next message of a monitor, which must be of this kind; warnings before it are logged.

    name: the container or exec of the monitor, for the log; seconds: the time limit, `START_SECONDS` for None
    Raises StartFailure, MonitorLost, TooSlow; SystemFailure for a message of another kind.
    """
    message = _next(link, name, seconds or START_SECONDS)
    if not isinstance(message, kind):
        raise _unexpected(message, kind.__name__)
    return message


def let_end(link: Channel, name: str, seconds: float) -> None:
    """Have a monitor that was not told to go on give up, and wait until it has ended, or so long.

    Until then it may write into the exec directory that it was given by name, and that may be the next start's.
    """
    latest = time.monotonic() + seconds
    try:
        link.socket.shutdown(socket.SHUT_WR)
        while True:
            link.socket.settimeout(max(latest - time.monotonic(), 0.001))
            if not link.socket.recv(1):
                return
    except TimeoutError:
        log.error("%s: the monitor of its failed start does not end", name)
    except OSError:
        pass  # it was gone already


def greeting(link: Channel, name: str, seconds: float) -> Started | Exited:
    """The greeting of a container's monitor to a daemon that adopts it. Parameters and errors are those of `expect`."""
    message = _next(link, name, seconds)
    if not isinstance(message, Started | Exited):
        raise _unexpected(message, "Started or Exited")
    return message


def left_behind(exec_dir: str) -> Exited | None:
    """How a container ended by its exit file; None when there is none or it cannot be decoded."""
    content = exitfile.read(exec_dir)
    if content is None:
        return None
    try:
        exited = codec.decode(content)
        if not isinstance(exited, Exited):
            raise Invalid(f"{type(exited).__name__} is not an Exited message")
        return exited
    except Invalid as error:
        log.error("the exit file %s cannot be decoded: %s", os.path.join(exec_dir, exitfile.EXIT), error)
        return None


def _next(link: Channel, name: str, seconds: float) -> Message:
    latest = time.monotonic() + seconds
    while True:
        try:
            link.socket.settimeout(max(latest - time.monotonic(), 0.001))
            received = link.receive()
        except TimeoutError as error:
            raise TooSlow(seconds) from error
        except Invalid as error:
            log.warning("%s: a message of its monitor cannot be decoded: %s", name, error)
            continue
        if received is None:
            raise MonitorLost("the container's monitor has died while it started")
        message, _ = received
        if isinstance(message, Failed):
            raise StartFailure(message)
        if not isinstance(message, Warned):
            return message
        log.warning("%s: %s", name, message.text)


def _unexpected(message: Message, wanted: str) -> SystemFailure:
    return SystemFailure(f"the monitor sent {type(message).__name__} where {wanted} was expected")
