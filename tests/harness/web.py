"""A web server on the daemon's loopback, for what a daemon downloads by a URL.

Runs on threads of the test process, its listening socket in the daemon's network namespace.
"""

import http.server
import threading
from collections.abc import Callable

from tests.harness.namespaces import Namespaces

Page = tuple[int, dict[str, str], bytes]


class Web:
    """Pages by their path, each what is answered: (status, headers, body), or a function of the request's headers.

    asked: the paths, in the order in which they were asked for. A context manager.
    """

    def __init__(self, namespaces: Namespaces) -> None:
        self.pages: dict[str, Page | Callable[[dict], Page]] = {}
        self.asked: list[str] = []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked.append(self.path)
                page = web.pages.get(self.path, (404, {}, b"nothing here\n"))
                status, headers, body = page(dict(self.headers)) if callable(page) else page
                self.send_response(status)
                for key, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = namespaces.socket()
        self._server.server_bind()
        self._server.server_activate()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "Web":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
