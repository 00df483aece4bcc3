"""The class of HTTP answers from registries: http.client's, with bounds on memory and time of reading.

Runs in the daemon, on the threads of a pull or a push. It is imported with the first request, because it loads ssl and
email.
"""

import http.client
import socket

from engine.daemon.images.registry import paced


class Answer(http.client.HTTPResponse):
    """One answer. paced: the connection below it, whose reads raise TimeoutError when it is too slow."""

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None):
        super().__init__(sock, debuglevel, method, url)
        self.paced = paced.Paced(self.fp.detach())
        self.fp = paced.Bounded(self.paced)
