"""The verb `engine demo`: runs one container on a private daemon, and shows each request and answer with its time.

Runs in the client's one thread. The daemon is a subprocess with its own socket and roots in a temporary directory,
which is removed afterwards. The demo uses only the programs of the host, and leaves no file behind.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from engine import origin
from engine.client import hostimage, progress
from engine.client.api import Api, ApiError, Query, container_path, error_text, target
from engine.client.door.destination import Destination
from engine.client.frames import Demultiplexer
from engine.client.image.imagenames import split_reference
from engine.client.transport import Connection, Object, Response
from engine.commandline import Given, Option, given_text
from engine.errors import SystemFailure, Unavailable

OPTIONS = (Option("image", "Pull this image instead of making one of the host's own programs", value="reference"),)

_WIDTH = 80
_IMAGE = "host:latest"
_NAME = "hello"
_COMMAND = ["echo", "hello from a container"]
# The host may be a slow one, or have other things to do: a daemon that lives is waited for.
_START_TIMEOUT = 120.0
_STOP_TIMEOUT = 60.0
_PATIENCE = 5.0
_LOOK_AGAIN, _LOOK_AGAIN_LATER = 0.002, 0.05
# Where to look for room besides the directories that `tempfile` knows; both are in memory.
_MORE_ROOM = ("/dev/shm", "/run")
_LONGEST_SOCKET = 107  # unix(7)
_SOCKET = "engine.sock"
_BUSYBOX = ("busybox",)
_PROGRAMS = ("sh", "echo", "cat", "ls", "sleep", "true", "false", "env", "id", "head", "wc", "kill")


def demo(api: None, given: Given, others: Sequence[str]) -> int:
    """Start a daemon, run the flow, clean up. Returns 0 when every step worked; raises ApiError, SystemFailure,
    Unavailable.
    """
    # SystemExit instead of death, so that the daemon and the directory are cleaned up
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _private_daemon() as socket_path, Connection(Destination("unix", path=socket_path)) as connection:
        try:
            Stage(connection).play(given_text(given, "image"))
        except BaseException:
            _remove_what_is_left(Api(socket_path))
            raise
    print("\nThe private daemon has ended, and its directory is gone.")
    return 0


def _remove_what_is_left(api: Api) -> None:
    """Remove the container after a step that failed: it would outlive its daemon."""
    try:
        api.call("DELETE", container_path(_NAME), {"force": True})
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def programs_of_this_host() -> tuple[str, ...]:
    """The programs for the demo's image: busybox, which has all of them in one file, else a few small programs."""
    return _BUSYBOX if shutil.which("busybox") else tuple(name for name in _PROGRAMS if shutil.which(name))


@contextmanager
def _private_daemon() -> Iterator[str]:
    """Run a daemon that listens on the socket whose path is yielded. Raises Unavailable with its log when it does not
    start.
    """
    with _room() as name:
        directory = Path(name)
        socket_path = str(directory / _SOCKET)
        log = directory / "daemon.log"
        began = time.perf_counter()
        process = _start(directory, socket_path, log)
        try:
            _until_it_answers(process, socket_path, log)
            _fold(f"A private daemon in {name} answered after {time.perf_counter() - began:.3f} s.")
            yield socket_path
        finally:
            _stop(process)


def _room() -> tempfile.TemporaryDirectory[str]:
    """A new directory for the daemon, removed at the end. Raises Unavailable where there is none that it could use."""
    refusals = []
    for place in (None, *_MORE_ROOM):
        try:
            made = tempfile.TemporaryDirectory(prefix="engine-demo-", dir=place)
        except OSError as error:
            refusals.append(f"{place}: {error.strerror}" if place else error.strerror or str(error))
            continue
        if len(os.fsencode(os.path.join(made.name, _SOCKET))) <= _LONGEST_SOCKET:
            return made
        refusals.append(f"{made.name}: too long for the path of a socket")
        made.cleanup()
    raise Unavailable(f"no temporary directory can be used ({'; '.join(refusals)}): name one with TMPDIR=DIR")


def _start(directory: Path, socket_path: str, log: Path) -> subprocess.Popen[bytes]:
    # An own file, so that the host's daemon.json has no effect.
    config = directory / "daemon.json"
    config.write_text("{}")
    arguments = {
        "--host": f"unix://{socket_path}",
        "--data-root": directory / "data",
        "--exec-root": directory / "exec",
        "--pidfile": directory / "pid",
        "--config-file": config,
    }
    command = origin.command("daemon", *(str(word) for pair in arguments.items() for word in pair))
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            stdout=output,
            stderr=output,
            env=origin.environment(),
            pass_fds=origin.descriptors(),
            start_new_session=True,  # Ctrl-C must only reach the demo, which ends the daemon after the clean-up
        )


def _until_it_answers(process: subprocess.Popen[bytes], socket_path: str, log: Path) -> None:
    """Wait for the first answer: only a connection shows that a daemon listens."""
    began, told = time.monotonic(), False
    while True:
        try:
            Api(socket_path).call("HEAD", "/_ping")
            return
        except Unavailable as error:
            spent, status = time.monotonic() - began, process.poll()
            if status is not None or spent > _START_TIMEOUT:
                what = f"gave no answer within {spent:.0f} s" if status is None else f"ended with status {status}"
                text = log.read_text(errors="replace").strip() or "(it is empty)"
                raise Unavailable(f"the private daemon {what}. Its log:\n{text}") from error
        if spent > _PATIENCE and not told:
            told = True
            print(f"The private daemon is slow to start; the demo waits up to {_START_TIMEOUT:.0f} s.", flush=True)
        # A slow host has its processor for the daemon.
        time.sleep(_LOOK_AGAIN_LATER if told else _LOOK_AGAIN)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Stage:
    """The demo's requests over one kept-alive connection, and how they are shown."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._steps = 0

    def play(self, reference: str | None) -> None:
        """Run every step of the demo. Raises ApiError or SystemFailure at the first that fails."""
        self._pull(reference) if reference else self._import()
        began = time.perf_counter()
        body = {"Image": reference or _IMAGE, "Cmd": _COMMAND, "HostConfig": {"NetworkMode": "none"}}
        self._json("Create a container", "POST", "/containers/create", {"name": _NAME}, body)
        self._json("Start it", "POST", container_path(_NAME, "start"))
        ended = self._json("Wait for its end", "POST", container_path(_NAME, "wait"))
        self._logs()
        self._json("Remove it", "DELETE", container_path(_NAME), {"force": True})
        spent = (time.perf_counter() - began) * 1000
        if ended["StatusCode"] != 0:
            raise SystemFailure(f"the container ended with {ended['StatusCode']}")
        print(f"\nFrom create to remove, with what was printed: {spent:.1f} ms.")

    def _pull(self, reference: str) -> None:
        name, tag = split_reference(reference)
        self._progress(f"Pull {reference}", {"fromImage": name, "tag": tag}, None)

    def _import(self) -> None:
        programs = programs_of_this_host()
        title = f"Make an image of this host's own {', '.join(programs)}"
        name, tag = split_reference(_IMAGE)
        self._progress(title, {"fromSrc": "-", "repo": name, "tag": tag}, hostimage.rootfs(programs))

    def _progress(self, title: str, query: Query, body: Iterable[bytes] | None) -> None:
        began, response = self._request(title, "POST", "/images/create", query, body)
        for document in response.documents():
            if "error" in document:
                raise ApiError(0, document["error"])
            if not document.get("progressDetail"):
                self._say(progress.line(document))
        self._status(response, time.perf_counter() - began)

    def _json(
        self,
        title: str,
        method: str,
        path: str,
        query: Query | None = None,
        body: Object | None = None,
    ) -> Object:
        """Make a call and show it; returns the JSON object of the answer, {} for an empty body."""
        began, response = self._request(title, method, path, query, body)
        data = response.read()
        self._status(response, time.perf_counter() - began)
        if not data.strip():
            return {}
        answer: Object = json.loads(data)
        self._say(json.dumps(answer))
        return answer

    def _logs(self) -> None:
        query = {"stdout": True}
        began, response = self._request("Read what it wrote", "GET", container_path(_NAME, "logs"), query)
        data = response.read()
        self._status(response, time.perf_counter() - began)
        frames = Demultiplexer()
        for stream, payload in frames.feed(data):
            self._say(f"stream {stream}: {payload.decode(errors='replace').rstrip()}")
        if not frames.whole or not data:
            raise SystemFailure("the output is incomplete")

    def _request(
        self,
        title: str,
        method: str,
        path: str,
        query: Query | None = None,
        body: Object | Iterable[bytes] | None = None,
    ) -> tuple[float, Response]:
        """Show a request and send it; returns (when it was sent, the answer's head). Raises ApiError for an error
        status.
        """
        self._steps += 1
        full = target(path, query)
        print(f"\n{self._steps}. {title}")
        _fold(f"> {method} {full}")
        headers: dict[str, str] = {}
        data: bytes | Iterable[bytes] | None = None
        if isinstance(body, dict):
            text = json.dumps(body)
            self._say(text, ">")
            data, headers = text.encode(), {"Content-Type": "application/json"}
        elif body is not None:
            self._say("(a tar archive)", ">")
            data, headers = body, {"Content-Type": "application/x-tar"}
        began = time.perf_counter()
        response = self._connection.request(method, full, headers, data)
        if response.status >= 400:
            text = error_text(response)
            self._status(response, time.perf_counter() - began)
            raise ApiError(response.status, text)
        return began, response

    def _status(self, response: Response, seconds: float) -> None:
        left = f"< {response.status} {HTTPStatus(response.status).phrase}"
        print(f"{left:<{_WIDTH - 12}}{seconds * 1000:9.2f} ms")

    def _say(self, text: str, mark: str = "<") -> None:
        _fold(f"{mark}   {text}")


def _fold(text: str) -> None:
    """Print a text folded to the width of a page; ids and other long words are cut where the page ends."""
    indent = f"{text[0]}   " if text[0] in "<>" else ""
    print(textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False))


FUNCTIONS = {"demo": (demo, OPTIONS)}
