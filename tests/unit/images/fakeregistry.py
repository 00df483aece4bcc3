"""A registry in a thread of the test, that answers as it is told: refuses, redirects, breaks off, asks for tokens."""

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.unit.images.made import MadeImage


@dataclass
class FakeRegistry:
    """What it holds, and what it was asked.

    manifests: tag or digest → (media type, bytes); blobs: digest → bytes
    asked: (method, path, headers) of each request; hook: looks at each request first, and answers it if it returns True
    """

    address: str
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    hook: Callable[[http.server.BaseHTTPRequestHandler], bool] = lambda handler: False

    def add(self, image: MadeImage, *tags: str) -> None:
        """Hold an image."""
        for name in (image.digest, *tags):
            self.manifests[name] = (image.document["mediaType"], image.manifest)
        self.blobs.update(image.blobs)

    def blob_requests(self) -> list[tuple[str, dict[str, str]]]:
        """path and headers of every blob asked for."""
        return [(path, headers) for _, path, headers in self.asked if "/blobs/" in path]


def answer(handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> bool:
    """Answer a request; True, for hooks."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
    return True


@contextlib.contextmanager
def serving() -> Iterator[FakeRegistry]:
    """A registry on a loopback port, plain HTTP, as long as the context lasts."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            registry.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            if registry.hook(self):
                return
            kind, _, name = self.path.rpartition("/")
            if self.path == "/v2/":
                answer(self, 200, b"{}")
            elif kind.endswith("/manifests") and name in registry.manifests:
                media_type, data = registry.manifests[name]
                digest = next(d for d, (_, other) in registry.manifests.items() if other == data and ":" in d)
                answer(self, 200, data, Content_Type=media_type, Docker_Content_Digest=digest)
            elif kind.endswith("/blobs") and name in registry.blobs:
                self.send_blob(registry.blobs[name])
            else:
                body = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
                answer(self, 404, json.dumps(body).encode())

        do_HEAD = do_GET
        do_POST = do_GET

        def send_blob(self, data: bytes) -> None:
            start = int(self.headers.get("Range", "bytes=0-")[6:-1])
            if start:
                span = f"bytes {start}-{len(data) - 1}/{len(data)}"
                answer(self, 206, data[start:], Content_Range=span)
            else:
                answer(self, 200, data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that tries TLS first, or goes away, is no error here."""

    server = Server(("127.0.0.1", 0), Handler)
    registry = FakeRegistry(f"127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
