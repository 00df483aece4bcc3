"""A server's answer as http.client reads it, which holds no more in memory than was asked for.

Runs in the daemon, on the threads of a pull or a push. Loaded with the first request, since ssl and email come along.
"""

import http.client
import socket

from engine.daemon.images.registry import paced


class Answer(http.client.HTTPResponse):
    """One answer. paced: the connection below it, which is given up when it trickles."""

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None):
        super().__init__(sock, debuglevel, method, url)
        self.paced = paced.Paced(self.fp.detach())
        self.fp = paced.Bounded(self.paced)
