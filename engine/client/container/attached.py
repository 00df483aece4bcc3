"""Keeps this terminal at a container, or at an exec, until that has ended: input, output, signals, the window's size.

Runs in the client's one thread. The order of the requests is docker's, and it matters: attach and wait are requested
before the start, so that no byte of output and no exit is missed.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from engine.client.api import Api, ApiError, container_path
from engine.client.session import Session, caught
from engine.client.terminal import DetachKeys, raw, size
from engine.client.transport import Object, Response
from engine.dataclass import dataclass
from engine.errors import SystemFailure

CANNOT_RUN = 125

# Signals that a user or a shell may send to the client, which forwards them to the container.
FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_NOT_BUILT = 501
_TOO_LATE = (404, 409)  # the container has ended meanwhile


@dataclass(frozen=True, slots=True)
class Manner:
    """How this terminal is at a container.

    tty: the container has a terminal; stdin: its input comes from here
    keys: which keys leave it; proxy: signals to this process are for the container
    condition: of the wait for its end: `removed`, `next-exit`, `not-running`
    outputs: which of its outputs are shown here; advice: what is said behind the reason why it does not start
    """

    tty: bool
    stdin: bool
    keys: bytes
    proxy: bool = True
    condition: str = "next-exit"
    outputs: Sequence[str] = ("stdout", "stderr")
    advice: str = ""


def run_attached(api: Api, container: str, manner: Manner, start: Callable[[], object] | None) -> int:
    """Attach to a container and stay until it has ended; returns its exit code, 0 when the user has detached.

    start: starts it; None for one that runs. Raises ApiError.
    """
    streams = {"stream": True, "stdin": manner.stdin, **{name: name in manner.outputs for name in ("stdout", "stderr")}}
    numbers = (*(FORWARDED if manner.proxy else ()), *((signal.SIGWINCH,) if manner.tty else ()))
    with caught(numbers) as signals:
        connection, first = api.attach(container, streams)
        with (
            connection,
            api.open("POST", container_path(container, "wait"), {"condition": manner.condition}) as waiting,
        ):
            if start is not None:
                try:
                    start()
                except ApiError as error:
                    print(f"engine: Error response from daemon: {error}{manner.advice}", file=sys.stderr)
                    return _status_of_failed_start(api, container, waiting if manner.condition == "removed" else None)
            if manner.tty:
                resize(api, container_path(container, "resize"), again=start is None)

            def on_signal(number: int) -> None:
                _pass_on(api, container, number)

            with at_terminal(manner):
                session = Session(connection, first, manner.tty, 0 if manner.stdin else None, _keys(manner))
                ended = session.run(waiting.fileno(), signals, on_signal)
            return _exit_code(_result(api, container, waiting)) if ended else 0


def run_exec(api: Api, identity: str, manner: Manner, body: Object) -> int | None:
    """Start an exec, stay until its output has ended. None then; otherwise the client's exit status, 0 when the user
    has detached. Raises ApiError.

    A signal to this process ends the client, not the exec, as with docker; this terminal is restored before.
    """
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH) if manner.tty else ()
    with caught(numbers) as signals:
        connection, first = api.hijack(f"/exec/{identity}/start", {}, body)
        with connection:
            if manner.tty:
                resize(api, f"/exec/{identity}/resize")

            def on_signal(number: int) -> None:
                if number != signal.SIGWINCH:
                    raise _Killed(number)
                resize(api, f"/exec/{identity}/resize")

            try:
                with at_terminal(manner):
                    session = Session(connection, first, manner.tty, 0 if manner.stdin else None, _keys(manner))
                    ended = session.run(None, signals, on_signal)
            except _Killed as killed:
                return 128 + killed.number
    return None if ended else 0


class _Killed(Exception):
    """This process was told to end by a signal, `number`."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def at_terminal(manner: Manner) -> Iterator[None]:
    """This terminal in raw mode, where it is the container's."""
    if manner.tty and manner.stdin and os.isatty(0):
        with raw(0):
            yield
    else:
        yield


def _keys(manner: Manner) -> DetachKeys | None:
    return DetachKeys(manner.keys) if manner.tty and manner.stdin and manner.keys else None


def _result(api: Api, container: str, waiting: Response) -> Object:
    """The answer of the wait. If the daemon was killed meanwhile, the next daemon is asked again: containers outlive a
    daemon.
    """
    try:
        result: Object = waiting.json()
    except SystemFailure:
        result = api.call("POST", container_path(container, "wait"))
    return result


def _exit_code(result: Object) -> int:
    if message := (result.get("Error") or {}).get("Message"):
        print(f"engine: {message}", file=sys.stderr)
        return CANNOT_RUN
    return int(result["StatusCode"])


def _status_of_failed_start(api: Api, container: str, waiting: Response | None) -> int:
    """126 or 127 where the command was at fault, as the daemon recorded it; else 125.

    waiting: the wait for the removal of a container with AutoRemove, whose answer has the recorded code; None for
    others
    """
    if waiting is not None:
        code: int = waiting.json()["StatusCode"]
    else:
        code = api.call("GET", container_path(container, "json"))["State"]["ExitCode"]
    return code if code in (126, 127) else CANNOT_RUN


def _pass_on(api: Api, container: str, number: int) -> None:
    if number == signal.SIGWINCH:
        resize(api, container_path(container, "resize"))
        return
    try:
        api.call("POST", container_path(container, "kill"), {"signal": number})
    except ApiError as error:
        if error.status not in _TOO_LATE:
            raise


def resize(api: Api, path: str, again: bool = False) -> None:
    """Give a container's terminal the size of our terminal, if we have one.

    again: make it one larger before, so that a program that runs already draws its picture anew
    """
    found = size(1)
    if found is None:
        return
    rows, columns = found
    try:
        if again:
            api.call("POST", path, {"h": rows + 1, "w": columns + 1})
        api.call("POST", path, {"h": rows, "w": columns})
    except ApiError as error:
        # Without the size a terminal still works, at 80 columns: an engine that has no resize is no reason to stop.
        if error.status not in (*_TOO_LATE, _NOT_BUILT):
            raise
