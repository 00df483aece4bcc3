"""A registry in a thread of the test that takes uploads: honestly by itself, or as a test's hook has it."""

import contextlib
import http.server
import itertools
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.unit.images import made
from tests.unit.images.fakeregistry import answer

Hook = Callable[[http.server.BaseHTTPRequestHandler], bool]


@dataclass
class Shelf:
    """What it holds, and what it was asked.

    blobs: (repository, digest) → bytes; manifests: (repository, tag or digest) → bytes; uploads: path → bytes so far
    asked: (method, path with query, headers) of each request; hook: sees each first, and answers it if it returns True
    smallest: the shortest chunk it asks for; forward: where `Location` sends an upload
    """

    address: str
    blobs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    hook: Hook = lambda handler: False
    smallest: int = 0
    forward: Callable[[str], str] = lambda path: path
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def methods(self, about: str = "") -> list[str]:
        """The methods of the requests whose path has that text."""
        return [method for method, path, _ in self.asked if about in path]

    def serve(self, handler: http.server.BaseHTTPRequestHandler) -> bool:
        """An honest answer."""
        parts = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        repository, _, rest = parts.path.removeprefix("/v2/").partition("/-/")
        if not rest:
            for kind in ("/blobs/", "/manifests/"):
                before, mark, after = parts.path.removeprefix("/v2/").partition(kind)
                repository, rest = (before, mark.strip("/") + "/" + after) if mark else (repository, rest)
        if parts.path == "/v2/":
            return answer(handler, 200, b"{}")
        if handler.command == "POST":
            return self._start(handler, repository, query)
        if parts.path in self.uploads:
            return self._upload(handler, parts.path, query)
        kind, _, name = rest.partition("/")
        if handler.command == "PUT":
            data = handler.rfile.read(int(handler.headers["Content-Length"]))
            self.manifests[repository, name] = self.manifests[repository, made.digest(data)] = data
            return answer(handler, 201, Docker_Content_Digest=made.digest(data))
        found = (self.blobs if kind == "blobs" else self.manifests).get((repository, name))
        if found is None:
            return answer(handler, 404, b"{}")
        return answer(handler, 200, found, Docker_Content_Digest=made.digest(found))

    def _start(self, handler: http.server.BaseHTTPRequestHandler, repository: str, query: dict[str, str]) -> bool:
        source = query.get("from", ""), query.get("mount", "")
        if source in self.blobs:
            self.blobs[repository, source[1]] = self.blobs[source]
            return answer(handler, 201, Docker_Content_Digest=source[1])
        path = f"/v2/{repository}/-/{next(self.numbers)}"
        self.uploads[path] = bytearray()
        more = {"OCI_Chunk_Min_Length": str(self.smallest)} if self.smallest else {}
        return answer(handler, 202, Location=self.forward(path), Range="0-0", **more)

    def _upload(self, handler: http.server.BaseHTTPRequestHandler, path: str, query: dict[str, str]) -> bool:
        held = self.uploads[path]
        if handler.command != "GET":
            if "Content-Range" in handler.headers and int(handler.headers["Content-Range"].split("-")[0]) != len(held):
                return answer(handler, 416)
            left = int(handler.headers["Content-Length"])
            while left and (data := handler.rfile.read1(min(left, 65536))):
                held += data
                left -= len(data)
            if left:
                return True
        if handler.command == "PUT":
            if made.digest(bytes(held)) != query["digest"]:
                return answer(handler, 400, b'{"errors": [{"code": "DIGEST_INVALID", "message": "no"}]}')
            self.blobs[path.removeprefix("/v2/").partition("/-/")[0], query["digest"]] = bytes(held)
            return answer(handler, 201, Docker_Content_Digest=query["digest"])
        status = 204 if handler.command == "GET" else 202
        return answer(handler, status, Location=self.forward(path), Range=f"0-{max(len(held) - 1, 0)}")


@contextlib.contextmanager
def taking() -> Iterator[Shelf]:
    """Such a registry on a loopback port, plain HTTP, as long as the context lasts."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def serve(self) -> None:
            shelf.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            if not shelf.hook(self):
                shelf.serve(self)

        do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = serve

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that tries TLS first, or goes away, is no error here."""

    server = Server(("127.0.0.1", 0), Handler)
    shelf = Shelf(f"127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield shelf
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
