"""Makes calls of the Engine API for the client: a method, path, query and body in; JSON, a stream or an `ApiError` out.

Runs in the client's one thread. Each call has a connection of its own, because a verb may wait for hours between two
calls. Paths carry no version: the client only uses what has been the same since 1.24, and every daemon takes bare
paths.
"""

import json
import socket
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from engine.client.transport import Connection, Object, Response
from engine.errors import EngineError


class ApiError(EngineError):
    """The daemon answered with an error; `status` is the HTTP status (0 for an error in the middle of a stream)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Calls to the daemon whose socket is at `path`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        json_body: Object | None = None,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Make a call; the caller closes the response (`with`). Raises ApiError for an error status, Unavailable,
        SystemFailure.

        query: the values, not yet quoted; True is sent as 1, None and False are left out.
        """
        lines = dict(headers or {})
        if json_body is not None:
            body = json.dumps(json_body).encode()
            lines["Content-Type"] = "application/json"
        connection = Connection(self.path)
        try:
            response = connection.request(method, target(path, query), lines, body)
            if response.status >= 400:
                raise ApiError(response.status, error_text(response))
        except BaseException:
            connection.close()
            raise
        return response

    def call(
        self, method: str, path: str, query: Mapping[str, object] | None = None, json_body: Object | None = None
    ) -> Any:
        """Make a call and return its JSON, shaped by the API's definition; None for an empty body. Raises ApiError."""
        with self.open(method, path, query, json_body=json_body) as response:
            return response.json()

    def progress(self, path: str, query: Mapping[str, object], body: Iterable[bytes] | None = None) -> Iterable[Object]:
        """POST, and yield the progress documents. Raises ApiError, also for an error in the middle of the stream."""
        headers = {} if body is None else {"Content-Type": "application/x-tar"}
        with self.open("POST", path, query, body=body, headers=headers) as response:
            for document in response.documents():
                if "error" in document:
                    raise ApiError(0, document["error"])
                yield document

    def attach(self, container: str, query: Mapping[str, object]) -> tuple[socket.socket, bytes]:
        """Attach to a container: returns the raw connection, which the caller owns, and the bytes already read from it.
        Raises ApiError.
        """
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        return self.open("POST", container_path(container, "attach"), query, headers=headers).take_over()


def container_path(container: str, verb: str = "") -> str:
    """The API's path of a container, or of one of its verbs; `container` is a name or an id."""
    path = f"/containers/{quote(container, safe='')}"
    return f"{path}/{verb}" if verb else path


def target(path: str, query: Mapping[str, object] | None) -> str:
    """A request target: the path with its query. True is sent as 1; None and False are left out."""
    pairs = [(key, 1 if value is True else value) for key, value in (query or {}).items() if value not in (None, False)]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def error_text(response: Response) -> str:
    """The message in an answer with an error status; reads the body."""
    data = response.read()
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace").strip() or f"status {response.status}"
