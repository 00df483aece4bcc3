"""A web server in a thread, with pages that are a table: what imports and downloads by URL are given."""

import contextlib
import http.server
import socket
import threading
from collections.abc import Iterator

# Path → status, headers, body; a `Content-Length` among the headers is told in the place of the true one.
Pages = dict[str, tuple[int, dict[str, str], bytes]]


class _Server(http.server.ThreadingHTTPServer):
    """With a socket that was made elsewhere, in another network perhaps."""

    daemon_threads = True

    def __init__(self, pages: Pages, listener: socket.socket, host: str) -> None:
        super().__init__((host, 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.pages = pages
        self.server_bind()
        self.server_activate()


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """The page, or 404."""
        status, headers, body = self.server.pages.get(self.path, (404, {}, b"no such page"))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def serving(pages: Pages, listener: socket.socket | None = None, host: str = "127.0.0.1") -> Iterator[str]:
    """The server's URL, while it serves."""
    server = _Server(pages, listener or socket.socket(), host)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
