"""The endpoint that attaches over a WebSocket.

Runs in its request's thread until the client is handed over; from then on a thread of the bridge moves its bytes.
"""

import socket

from engine.daemon.api.answers import Json, Response
from engine.daemon.api.request import Request
from engine.daemon.containers.output import attach as attaching
from engine.daemon.parts import DaemonParts
from engine.daemon.runtime.background import later

_SINCE_BINARY = (1, 28)
_SINCE_STREAMS = (1, 42)


def attach(engine: DaemonParts, request: Request) -> Response | None:
    """GET /containers/{id}/attach/ws"""
    # Nobody but the clients of this endpoint needs the protocol: an idle daemon does not load it.
    from engine.daemon.api import websocketbridge
    from engine.protocols import websocket

    container = engine.containers.find(request.parameters["id"])
    query = request.query
    # Older clients could not say which streams they want, and got all.
    default = request.version < _SINCE_STREAMS
    asked = attaching.Asked(
        logs=query.flag("logs"),
        stream=query.flag("stream"),
        stdin=default or query.flag("stdin"),
        stdout=default or query.flag("stdout"),
        stderr=default or query.flag("stderr"),
        detach_keys=query.text("detachKeys"),
        reference=request.parameters["id"],
        framed=False,  # a terminal has one stream, and other clients were never told apart which is which
    )
    try:
        fields = websocket.handshake(request.method, request.head)
    except websocket.WrongVersion as error:
        return Json({"message": str(error)}, 426, (("Sec-WebSocket-Version", websocket.VERSION),))
    machine = websocket.Machine(text=request.version < _SINCE_BINARY)

    def hijack() -> socket.socket:
        peer = request.upgrade(fields)
        ours, theirs = socket.socketpair()
        later(websocketbridge.run, peer, ours, machine)
        return theirs

    attaching.attach(engine, container, asked, request.await_body, hijack)
    return None
