"""The endpoint GET /containers/{id}/attach/ws, which attaches a client to a container over a WebSocket.

It runs in its request's thread until the client is handed over. From then on a thread of `websocketbridge` moves the
bytes.
"""

import socket

from engine.daemon.api import versions
from engine.daemon.api.answers import Json, Response
from engine.daemon.api.request import Request
from engine.daemon.containers.life import current
from engine.daemon.containers.output import attach as attaching
from engine.daemon.parts import DaemonParts
from engine.daemon.runtime.background import later
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first request for a WebSocket
    from engine.daemon.api import websocketbridge
    from engine.protocols import websocket
else:
    websocketbridge = late("engine.daemon.api.websocketbridge")
    websocket = late("engine.protocols.websocket")


def attach(engine: DaemonParts, request: Request) -> Response | None:
    """GET /containers/{id}/attach/ws: connect the client with the container's input and output."""
    # Only this endpoint needs the WebSocket protocol, so an idle daemon does not load it.
    container = current.find(engine, request.parameters["id"])
    query = request.query
    every = not versions.chooses_streams(request.version)
    asked = attaching.AskedAttach(
        logs=query.flag("logs"),
        stream=query.flag("stream"),
        stdin=every or query.flag("stdin"),
        stdout=every or query.flag("stdout"),
        stderr=every or query.flag("stderr"),
        detach_keys=query.text("detachKeys"),
        reference=request.parameters["id"],
        framed=False,  # a terminal has one stream; for all others a WebSocket never told stdout from stderr
    )
    try:
        fields = websocket.handshake(request.method, request.head)
    except websocket.WrongVersion as error:
        return Json({"message": str(error)}, 426, (("Sec-WebSocket-Version", websocket.VERSION),))
    machine = websocket.Machine(text=versions.has_text_frames(request.version))

    def hijack() -> socket.socket:
        peer = request.upgrade(fields)
        ours, theirs = socket.socketpair()
        later(websocketbridge.run, peer, ours, machine)
        return theirs

    attaching.attach(engine, container, asked, request.await_body, hijack)
    return None
