"""One GET of a URL that a client or a Dockerfile names: redirects followed, every wait bounded, told in Go's words.

Runs in the build's thread. The body is a stream of any length; whoever reads it decides how much is too much.
"""

import base64
import contextlib
import time
import urllib.parse
from collections.abc import Iterator

from engine.daemon.images.registries.transport import ConnectFailure, Origin, Transport, read_body, split_url
from engine.errors import NotFound, SystemFailure

_MOST_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_REASON = 4096
# A server may take its time over the first bytes; then it must bring so many for each second.
_GRACE_SECONDS = 60
_SLOWEST = 1024


def is_url(text: str) -> bool:
    """Whether docker takes the text for a URL."""
    return text.startswith(("http://", "https://"))


def is_git(text: str) -> bool:
    """Whether docker takes the text for a git repository."""
    if is_url(text):
        return text.partition("#")[0].endswith(".git")
    return text.startswith(("git://", "git@", "github.com/", "ssh://"))


class Answer:
    """An answer of less than 400. length: -1 where the server does not say."""

    def __init__(self, answer: object, url: str):
        self._answer = answer
        self._url = url
        self._began = time.monotonic()
        self._count = 0
        self.length = answer.length if answer.length is not None else -1

    def header(self, name: str) -> str:
        """A header's value, or empty."""
        return self._answer.getheader(name) or ""

    def read(self, count: int) -> bytes:
        """Up to count bytes, as soon as there are any; none at the end. Raises SystemFailure."""
        import http.client  # loaded with the answer already

        try:
            data = self._answer.read1(count)
        except TimeoutError as error:
            raise SystemFailure(f'Get "{self._url}": net/http: timeout while reading body') from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SystemFailure(f'Get "{self._url}": unexpected EOF') from error
        self._count += len(data)
        if not data and self._answer.length:
            raise SystemFailure(f'Get "{self._url}": unexpected EOF')
        seconds = time.monotonic() - self._began
        if data and seconds > _GRACE_SECONDS + self._count / _SLOWEST:
            raise SystemFailure(f'Get "{self._url}": the server sends less than {_SLOWEST} bytes a second')
        return data


@contextlib.contextmanager
def get(url: str) -> Iterator[Answer]:
    """The answer to a GET. Raises NotFound, SystemFailure."""
    with contextlib.closing(Transport()) as transport:
        yield _followed(transport, url)


def _followed(transport: Transport, url: str) -> Answer:
    here, host = url, ""
    for _ in range(_MOST_REDIRECTS):
        scheme, name, port, target = split_url(_without_user(here))
        host = host or name
        origin = Origin(scheme, name, port)
        # What the URL itself says of a user is for its own host only.
        headers = _credentials(here) if name == host else {}
        try:
            answer = transport.send("GET", origin, target, headers)
        except ConnectFailure as error:
            raise SystemFailure(f'Get "{here}": {error}') from error
        if answer.status not in _REDIRECTS or not answer.getheader("Location"):
            return _checked(answer, url)
        transport.drop(origin)
        here = urllib.parse.urljoin(here, answer.getheader("Location"))
    raise SystemFailure(f'Get "{here}": stopped after {_MOST_REDIRECTS} redirects')


def _without_user(url: str) -> str:
    parts = urllib.parse.urlsplit(url.partition("#")[0])
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _credentials(url: str) -> dict[str, str]:
    parts = urllib.parse.urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _checked(answer: object, url: str) -> Answer:
    if answer.status < 400:
        return Answer(answer, url)
    try:
        reason = read_body(answer, _LONGEST_REASON).decode("utf-8", "replace").strip()
    except ConnectFailure:
        reason = "error reading body"
    text = f"failed to GET {url} with status {answer.status} {answer.reason}: {reason}"
    raise NotFound(text) if answer.status == 404 else SystemFailure(text)
