"""Fetching a file from an http or https URL as a stream of bytes, for an import and for a build's ADD.

Runs in the daemon, on the request's thread. All of it is bounded: the number of redirects is limited, a server that is
silent for a minute or sends below a minimum rate is given up, and more bytes than allowed are refused. Errors have the
words of Go's HTTP client. The only credentials that are sent are those of the URL, and of its headers. Other
protocols, and files of the host, are not supported.
"""

import base64
import contextlib
import http.client
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping

from engine.daemon.images.archives import weburl
from engine.daemon.images.registry import transport
from engine.daemon.images.registry.answer import Answer
from engine.daemon.images.registry.transport import ConnectFailure, Origin, Transport
from engine.daemon.jsontext import Object
from engine.errors import EngineError, Forbidden, Invalid, NotFound, SystemFailure, Unauthorized
from engine.kernel import reasons
from engine.redact import redacted

_KINDS = {400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound}
_PIECE = 256 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_AUTHORIZATION, _CONDITION = "Authorization", "If-None-Match"
NOT_MODIFIED = 304
_ERROR_TEXT = 1024
_TELL_SECONDS = 0.1
_LOOK_SECONDS = 0.5
# Enough for a root filesystem or a file of a build. A client sends anything larger as the request's body.
LARGEST = 64 << 30


class Remote:
    """The body of an HTTP answer, to be read with `read(n)`.

    url: where the file was found after all redirects; size: the length that the server says, or None
    status: of the answer
    most: the bytes that are allowed; progress: called with the bytes read so far
    Reading raises SystemFailure when the body breaks off, Invalid when it has more than `most` bytes.
    """

    def __init__(self, answer: Answer, url: str, most: int, progress: Callable[[int], None]):
        self._answer = answer
        self._most = most
        self._progress = progress
        self.url = url
        self.size: int | None = answer.length
        self.status = answer.status
        self.done = 0

    def header(self, name: str) -> str:
        """The value of a header of the answer, empty when it has none."""
        return self._answer.getheader(name) or ""

    def read(self, count: int = _PIECE) -> bytes:
        """The bytes that have come, at most count; empty at the end."""
        data = _read(self._answer, count)
        if not data and self.size is not None and self.done < self.size:
            raise SystemFailure("unexpected EOF")
        self.done += len(data)
        if self.done > self._most:
            raise Invalid(f"{self.url} has more than the {self._most} bytes allowed")
        self._progress(self.done)
        return data


def _untold(_: int) -> None:
    """The progress callback of a caller that shows no progress."""


def _never() -> None:
    """The `check` of a caller that waits in any case."""


@contextlib.contextmanager
def opened(
    url: str,
    most: int = LARGEST,
    progress: Callable[[int], None] = _untold,
    check: Callable[[], None] = _never,
    loopback: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Iterator[Remote]:
    """The file at `url`, also through redirects. check: raises once nobody waits any more; a thread of its own asks it

    loopback: it may be on the host's loopback interface
    headers: of the request; with If-None-Match the answer may be that nothing has changed
    Raises Invalid, SystemFailure, NotFound in words of Go's client, and what `check` raises.
    """
    shown, headers = url, dict(headers or {})
    with contextlib.closing(Transport(loopback=loopback)) as connections, _given_up(connections, check):
        for _ in range(_MOST_REDIRECTS):
            answer = _get(connections, url, headers)
            place = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or not place:
                break
            url = transport.joined(url, place)
            if not _is_within(urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(shown).hostname):
                headers.pop(_AUTHORIZATION, None)  # for no other host than the one that it is meant for, as with Go
            answer.close()
        else:
            raise SystemFailure(f'Get "{shown}": stopped after {_MOST_REDIRECTS} redirects')
        if not 200 <= answer.status < 300 and (answer.status != NOT_MODIFIED or _CONDITION not in headers):
            raise _refused(shown, answer)
        # The body has no time limit as a whole, but has to come at a minimum rate.
        answer.paced.as_blob()
        yield Remote(answer, url, most, progress)


@contextlib.contextmanager
def _given_up(connections: Transport, check: Callable[[], None]) -> Iterator[None]:
    """Break the connections once `check` raises: a server may be slow, or silent for long."""
    if check is _never:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            try:
                check()
            except Exception:  # which the thread that reads is told below
                connections.interrupt()
                return

    thread = threading.Thread(target=watch, name="download", daemon=True)
    thread.start()
    try:
        yield
    except EngineError:
        check()
        raise
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def told(url: str, progress: Callable[[Object], None]) -> Iterator[Remote]:
    """The file at `url` for an import, with its URL and its progress reported as messages of the API.

    Raises what `opened` raises.
    """
    last = 0.0

    def show(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _TELL_SECONDS:
            last = now
            progress({"status": "Importing", "progressDetail": {"current": done, "total": source.size or 0}})

    with opened(url, progress=show) as source:
        progress({"status": f"Downloading from {redacted(url)}"})
        yield source


def _is_within(host: str | None, asked: str | None) -> bool:
    return host == asked or (host or "").endswith(f".{asked}")


def _get(connections: Transport, url: str, more: Mapping[str, str]) -> Answer:
    url = weburl.normal(url)
    try:
        scheme, host, port, target = transport.split_url(url)
    except SystemFailure as error:  # a port or an IPv6 address that is none
        raise Invalid(str(error)) from error
    try:
        origin = Origin(scheme, host, port)
        # A new connection for each request: unread bytes of one answer must not come before the next answer.
        headers = {"Host": origin.netloc, "Connection": "close", **_authorization(url), **more}
        return connections.send("GET", origin, target, headers)
    except ConnectFailure as error:
        raise SystemFailure(f'Get "{url}": {error}') from error


def _authorization(url: str) -> dict[str, str]:
    """The header for the credentials that the URL has."""
    user, at, _ = urllib.parse.urlsplit(url).netloc.rpartition("@")
    if not at:
        return {}
    name, _, password = (urllib.parse.unquote_to_bytes(part) for part in user.partition(":"))
    return {_AUTHORIZATION: f"Basic {base64.b64encode(name + b':' + password).decode()}"}


def _refused(url: str, answer: Answer) -> EngineError:
    text = _read(answer, _ERROR_TEXT).decode("utf-8", "replace").strip()
    kind = _KINDS.get(answer.status, SystemFailure)
    return kind(f"failed to GET {url} with status {answer.status} {answer.reason}: {text}")


def _read(answer: Answer, count: int) -> bytes:
    """The bytes of at most one read of the connection. To wait for a full buffer could take days."""
    try:
        return answer.read1(count)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SystemFailure(reasons.whole(error) or "unexpected EOF") from error
