"""Makes calls of the Engine API for the client: a method, path, query and body in; JSON, a stream or an `ApiError` out.

Runs in the client's one thread. Each call has a connection of its own, because a verb may wait for hours between two
calls. Paths carry no version: the client only uses what has been the same since 1.24, and every daemon takes bare
paths.
"""

import json
import socket
from collections.abc import Iterable, Mapping, Sequence

from engine.annotating import Any
from engine.client.door.destination import Destination
from engine.client.transport import Connection, Object, Response
from engine.errors import EngineError

Query = Mapping[str, str | int | Sequence[str] | None]
"""The values of a query, not yet quoted: True is sent as 1, None and False are left out, each of a list is sent."""
_UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


class ApiError(EngineError):
    """The daemon answered with an error.

    status: the HTTP status; 0 for an error in the middle of a stream
    code: the exit code of a build's command that has failed; 1 for other errors
    """

    def __init__(self, status: int, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Api:
    """Calls to one daemon.

    place: where it is; a text is the path of its Unix socket
    """

    def __init__(self, place: Destination | str) -> None:
        self.place = Destination("unix", path=place) if isinstance(place, str) else place

    def open(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        json_body: Object | None = None,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Make a call; the caller closes the response (`with`). Raises ApiError for an error status, Unavailable,
        SystemFailure.
        """
        lines = dict(headers or {})
        if json_body is not None:
            body = json.dumps(json_body).encode()
            lines["Content-Type"] = "application/json"
        connection = Connection(self.place)
        try:
            response = connection.request(method, target(path, query), lines, body)
            if response.status >= 400:
                raise ApiError(response.status, error_text(response))
        except BaseException:
            connection.close()
            raise
        return response

    def call(self, method: str, path: str, query: Query | None = None, json_body: Object | None = None) -> Any:
        """Make a call and return its JSON, shaped by the API's definition; None for an empty body. Raises ApiError."""
        with self.open(method, path, query, json_body=json_body) as response:
            return response.json()

    def progress(
        self,
        path: str,
        query: Query,
        body: Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterable[Object]:
        """POST, and yield the progress documents. Raises ApiError, also for an error in the middle of the stream."""
        headers = {**({} if body is None else {"Content-Type": "application/x-tar"}), **(headers or {})}
        with self.open("POST", path, query, body=body, headers=headers) as response:
            for document in response.documents():
                if "error" in document:
                    detail = document.get("errorDetail") or {}
                    raise ApiError(0, str(document["error"]), detail.get("code") or 1)
                yield document

    def attach(self, container: str, query: Query) -> tuple[socket.socket, bytes]:
        """Attach to a container; what is returned and raised is that of `hijack`."""
        return self.hijack(container_path(container, "attach"), query)

    def hijack(self, path: str, query: Query, json_body: Object | None = None) -> tuple[socket.socket, bytes]:
        """POST, and take the connection over: returns it raw, for the caller to own, and the bytes already read from
        it. Raises ApiError.
        """
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        return self.open("POST", path, query, json_body=json_body, headers=headers).take_over()


def container_path(container: str, verb: str = "") -> str:
    """The API's path of a container, or of one of its verbs; `container` is a name or an id."""
    return noun_path("containers", container, verb)


def noun_path(noun: str, name: str, verb: str = "") -> str:
    """The API's path of one thing of a kind, such as `networks`, or of one of its verbs."""
    path = f"/{noun}/{quoted(name)}"
    return f"{path}/{verb}" if verb else path


def image_path(image: str, verb: str = "") -> str:
    """The API's path of an image, or of one of its verbs; slashes of the name stay, as docker sends them."""
    path = "/images/" + "/".join(map(quoted, image.split("/")))
    return f"{path}/{verb}" if verb else path


def quoted(text: str) -> str:
    """A text in which each byte of UTF-8 but letters, digits and `-._~` is percent-encoded (RFC 3986, section 2)."""
    data = text.encode(errors="surrogateescape")
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in data)


def target(path: str, query: Query | None) -> str:
    """A request target: the path with its query."""
    pairs = []
    for key, value in (query or {}).items():
        for each in (value,) if isinstance(value, str | int | None) else value:
            if each is not None and each is not False:
                pairs.append(f"{key}={quoted(str(1 if each is True else each))}")
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def error_text(response: Response) -> str:
    """The message in an answer with an error status; reads the body."""
    data = response.read()
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace").strip() or f"status {response.status}"
