"""A file of the web as a stream of bytes: what an import from a URL and an ADD of one read.

Runs in the daemon, on the request's thread. Nothing is endless: redirects are counted, a server that is silent for a
minute or trickles below a floor is given up, and what is more than was allowed is refused. Failures are told as Go's
client does. No credentials are sent, and nothing is asked of files or of other protocols: http and https alone.
"""

import contextlib
import http.client
import time
from collections.abc import Callable, Iterator

from engine.daemon.images.registry import transport
from engine.daemon.images.registry.answer import Answer
from engine.daemon.images.registry.transport import ConnectFailure, Origin, Transport
from engine.daemon.jsontext import Object
from engine.errors import EngineError, Forbidden, Invalid, NotFound, SystemFailure, Unauthorized

_KINDS = {400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound}
_PIECE = 256 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_ERROR_TEXT = 1024
# Below this many bytes a second, looked at over a minute, a download is no download.
_FLOOR = 1024
_FLOOR_SECONDS = 60.0
_TELL_SECONDS = 0.1
# A root filesystem or a build's file; what is larger comes as a body, where the client sees it going.
LARGEST = 64 << 30


class Remote:
    """An answer's body: `read(n)`. url: where it was found in the end; size: what the server says, or None.

    Raises SystemFailure when it breaks off, Invalid when it goes on for too long.
    """

    def __init__(self, answer: Answer, url: str, most: int, progress: Callable[[int], None]):
        self._answer = answer
        self._most = most
        self._progress = progress
        self._since = time.monotonic()
        self._before = 0
        self.url = url
        self.size: int | None = answer.length
        self.done = 0

    def header(self, name: str) -> str:
        """A header of the answer, or empty."""
        return self._answer.getheader(name) or ""

    def read(self, count: int = _PIECE) -> bytes:
        """What there is, at most count bytes; empty at the end."""
        data = _read(self._answer, count)
        if not data and self.size is not None and self.done < self.size:
            raise SystemFailure("unexpected EOF")
        self.done += len(data)
        if self.done > self._most:
            raise Invalid(f"{self.url} has more than the {self._most} bytes allowed")
        self._check_speed()
        self._progress(self.done)
        return data

    def _check_speed(self) -> None:
        now = time.monotonic()
        if now - self._since < _FLOOR_SECONDS:
            return
        if self.done - self._before < _FLOOR * _FLOOR_SECONDS:
            raise SystemFailure(f"{self.url}: less than {_FLOOR} bytes a second")
        self._since, self._before = now, self.done


def _untold(_: int) -> None:
    """For who shows no progress."""


@contextlib.contextmanager
def opened(url: str, most: int = LARGEST, progress: Callable[[int], None] = _untold) -> Iterator[Remote]:
    """The file at `url`, followed through redirects. Raises NotFound, SystemFailure in the words of Go's client."""
    shown = url
    with contextlib.closing(Transport()) as connections:
        for _ in range(_MOST_REDIRECTS):
            answer = _get(connections, url)
            place = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or not place:
                break
            url = transport.joined(url, place)
            answer.close()
        else:
            raise SystemFailure(f'Get "{shown}": stopped after {_MOST_REDIRECTS} redirects')
        if not 200 <= answer.status < 300:
            raise _refused(shown, answer)
        # It may take its time, at the speed that `Remote` asks for.
        answer.paced.as_blob()
        yield Remote(answer, url, most, progress)


@contextlib.contextmanager
def told(url: str, progress: Callable[[Object], None]) -> Iterator[Remote]:
    """The file at `url`, for an import: where it comes from, and how far it is, are lines of progress.

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
        progress({"status": f"Downloading from {url}"})
        yield source


def _get(connections: Transport, url: str) -> Answer:
    try:
        scheme, host, port, target = transport.split_url(url)
    except (SystemFailure, ValueError) as error:
        raise Invalid(f'Get "{url}": unsupported protocol scheme or no host in request URL') from error
    try:
        origin = Origin(scheme, host, port)
        # A connection each: bytes of one answer that nobody reads must not stand before the next.
        return connections.send("GET", origin, target, {"Host": origin.netloc, "Connection": "close"})
    except ConnectFailure as error:
        raise SystemFailure(f'Get "{url}": {error}') from error


def _refused(url: str, answer: Answer) -> EngineError:
    text = _read(answer, _ERROR_TEXT).decode("utf-8", "replace").strip()
    kind = _KINDS.get(answer.status, SystemFailure)
    return kind(f"failed to GET {url} with status {answer.status} {answer.reason}: {text}")


def _read(answer: Answer, count: int) -> bytes:
    """What one look at the connection brings: a full buffer could be waited for for days."""
    try:
        return answer.read1(count)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SystemFailure(str(error) or "unexpected EOF") from error
