"""The verb `engine run`: creates a container, attaches this terminal to it, starts it and returns its exit code.

Runs in the client's one thread. The order of the requests is docker's, and it matters: attach and wait are requested
before the start, so that no byte of output and no exit is missed.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence

from engine.client.api import Api, ApiError, container_path
from engine.client.display import parse_size
from engine.client.images import pull
from engine.client.session import Session, caught
from engine.client.terminal import DetachKeys, need_terminal, raw, size
from engine.client.transport import Object, Response
from engine.commandline import Given, Option, given_text, given_texts
from engine.errors import Invalid, SystemFailure

CANNOT_RUN = 125

# Signals that a user or a shell may send to the client, which forwards them to the container.
_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_NOT_BUILT = 501
_NOT_FOUND = 404
_TOO_LATE = (404, 409)  # the container has ended meanwhile

OPTIONS = (
    Option("detach", "Start the container, print its id, and leave it", short="d", kind="flag", default=False),
    Option("entrypoint", "Use this instead of the image's Entrypoint", value="command"),
    Option("env", "Set a variable; NAME alone takes it from here; repeatable", short="e", kind="list", default=()),
    Option("interactive", "Pass input on to the container", short="i", kind="flag", default=False),
    Option("memory", "Most memory it may use, such as 64m", short="m", value="size"),
    Option("name", "Name of the container"),
    Option("network", "Network mode: none, host or bridge", value="mode"),
    Option("rm", "Remove the container when it has ended", kind="flag", default=False),
    Option("tty", "Give the container a terminal", short="t", kind="flag", default=False),
    Option("user", "User to run as: name or number, and :group", short="u"),
    Option("workdir", "Directory to run in", short="w", value="path"),
)


def run(api: Api, given: Given, others: Sequence[str]) -> int:
    """Create a container, attach, wait, start; returns the container's exit code. Raises Invalid, ApiError."""
    if not others:
        raise Invalid("run needs an image")
    image, *command = others
    attached = not given.get("detach")
    if attached and given.get("tty") and given.get("interactive"):
        need_terminal(0)
    body = creation(image, command, given, os.environ)
    try:
        container = _create(api, image, body, given_text(given, "name"))
        if attached:
            return _run_attached(api, container, body)
        api.call("POST", container_path(container, "start"))
    except ApiError as error:
        print(f"engine: {error}", file=sys.stderr)
        return CANNOT_RUN
    print(container)
    return 0


def creation(image: str, command: Sequence[str], given: Given, environ: Mapping[str, str]) -> Object:
    """The body of POST /containers/create for these options. Raises Invalid."""
    attached = not given.get("detach")
    stdin = bool(given.get("interactive"))
    host: Object = {"AutoRemove": bool(given.get("rm")), "NetworkMode": given.get("network") or "default"}
    if "memory" in given:
        host["Memory"] = parse_size(given_text(given, "memory"))
    body = {
        "Image": image,
        "Cmd": list(command) or None,
        "Env": [setting for text in given_texts(given, "env") if (setting := _setting(text, environ)) is not None],
        "WorkingDir": given.get("workdir", ""),
        "User": given.get("user", ""),
        "Tty": bool(given.get("tty")),
        "OpenStdin": stdin,
        "StdinOnce": stdin and attached,
        "AttachStdin": stdin and attached,
        "AttachStdout": attached,
        "AttachStderr": attached,
        "HostConfig": host,
    }
    if "entrypoint" in given:
        body["Entrypoint"] = [given_text(given, "entrypoint")]
    return body


def _setting(text: str, environ: Mapping[str, str]) -> str | None:
    """`NAME=value` as it is; a bare `NAME` with its value in our environment, None when it has none there."""
    if "=" in text:
        return text
    return f"{text}={environ[text]}" if text in environ else None


def _create(api: Api, image: str, body: Object, name: str) -> str:
    """Create the container and return its id; a missing image is pulled first."""
    query = {"name": name or None}
    try:
        answer: Object = api.call("POST", "/containers/create", query, body)
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
        print(f"Unable to find image '{image}' locally", file=sys.stderr)
        pull(api, image, sys.stderr)
        answer = api.call("POST", "/containers/create", query, body)
    for warning in answer.get("Warnings") or ():
        print(f"WARNING: {warning}", file=sys.stderr)
    return str(answer["Id"])


def _run_attached(api: Api, container: str, body: Object) -> int:
    streams = {"stream": True, "stdin": body["OpenStdin"], "stdout": True, "stderr": True}
    removed = body["HostConfig"]["AutoRemove"]
    terminal = body["Tty"] and body["OpenStdin"]
    signals = (*_FORWARDED, signal.SIGWINCH) if body["Tty"] else _FORWARDED
    with caught(signals) as caught_signals:
        connection, first = api.attach(container, streams)
        with connection:
            wait = {"condition": "removed" if removed else "next-exit"}
            with api.open("POST", container_path(container, "wait"), wait) as waiting:
                try:
                    api.call("POST", container_path(container, "start"))
                except ApiError as error:
                    print(f"engine: {error}", file=sys.stderr)
                    return _status_of_failed_start(api, container, waiting if removed else None)
                if body["Tty"]:
                    _resize(api, container)
                session = Session(
                    connection,
                    first,
                    tty=body["Tty"],
                    stdin=0 if body["OpenStdin"] else None,
                    detach=DetachKeys() if terminal else None,
                )

                def on_signal(number: int) -> None:
                    _pass_on(api, container, number)

                if terminal:
                    with raw(0):
                        ended = session.run(waiting.fileno(), caught_signals, on_signal)
                else:
                    ended = session.run(waiting.fileno(), caught_signals, on_signal)
                return _exit_code(_result(api, container, waiting)) if ended else 0


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
        _resize(api, container)
        return
    try:
        api.call("POST", container_path(container, "kill"), {"signal": number})
    except ApiError as error:
        if error.status not in _TOO_LATE:
            raise


def _resize(api: Api, container: str) -> None:
    """Give the container's terminal the size of our terminal, if we have one."""
    found = size(1)
    if found is None:
        return
    rows, columns = found
    try:
        api.call("POST", container_path(container, "resize"), {"h": rows, "w": columns})
    except ApiError as error:
        # Without the size a terminal still works, at 80 columns: an engine that has no resize is no reason to stop.
        if error.status not in (*_TOO_LATE, _NOT_BUILT):
            raise
