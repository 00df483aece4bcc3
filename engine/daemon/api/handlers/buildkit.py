"""The endpoints over which BuildKit's API is spoken: POST /grpc and HTTP/2 without an upgrade, on which a client calls
the daemon, and POST /session, on which the daemon calls the client.

Each request's thread runs its connection until the client goes. The first build of a client imports this module.
"""

import socket

from engine.daemon.api.request import Request
from engine.daemon.buildkit import methods, serving, sessions
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.serving import Method
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late
from engine.protocols.http import HTTP_2, tokens

if TYPE_CHECKING:  # each is loaded by the first call of one of its methods: those that build are many modules
    from engine.daemon.buildkit import bridgeservice, contentservice, controlservice, workerservice
else:
    bridgeservice = late("engine.daemon.buildkit.bridgeservice")
    contentservice = late("engine.daemon.buildkit.contentservice")
    controlservice = late("engine.daemon.buildkit.controlservice")
    workerservice = late("engine.daemon.buildkit.workerservice")

_SERVICES = {
    methods.CONTROL + "ListWorkers": workerservice,
    methods.CONTROL + "Info": workerservice,
    methods.CONTROL: controlservice,
    methods.GATEWAY: bridgeservice,
    methods.CONTENT: contentservice,
}
"""Where a method is, by its path or by its service."""
_UPGRADED = "Connection: Upgrade\r\nUpgrade: h2c\r\n"


def grpc(engine: DaemonParts, request: Request) -> None:
    """POST /grpc: serve the calls of a client."""
    _check(request)
    _serve(engine, request.upgrade(_UPGRADED))


def http_2(engine: DaemonParts, request: Request) -> None:
    """HTTP/2 with prior knowledge (RFC 9113 section 3.3): serve the calls of a client, as after POST /grpc."""
    _serve(engine, request.leave(), begun=HTTP_2)


def _serve(engine: DaemonParts, peer: socket.socket, begun: bytes = b"") -> None:
    """Serve BuildKit's services to a client until it goes. begun: what was read of its HTTP/2 before"""

    def find(path: str) -> Method | None:
        service = _SERVICES.get(path) or _SERVICES.get(path[: path.rfind("/") + 1])
        run = None if service is None else service.served(engine).get(path)
        return None if run is None else Method(*methods.TABLES[path], run)

    Link(peer, False, serving.Server(find).accept, pings=True, begun=begun).run()


def session(_engine: DaemonParts, request: Request) -> None:
    """POST /session: have a client's methods at hand for its jobs."""
    _check(request)
    id = request.headers.get(sessions.ID, "")
    if not id:
        raise Invalid("no session id: the header X-Docker-Expose-Session-Uuid is missing")
    offers = sessions.offered(request.headers.get(sessions.OFFERS, ""))
    link = Link(request.upgrade(_UPGRADED), True)
    sessions.serve(sessions.Session(id, request.headers.get(sessions.SHARED_KEY, ""), offers, link))


def _check(request: Request) -> None:
    """Raise Invalid, in BuildKit's words, for a client that does not ask to go on in HTTP/2."""
    asked = request.headers.get("upgrade", "")
    if not asked:
        raise Invalid("no upgrade proto in request")
    if "h2c" not in tokens(asked):
        raise Invalid(f"protocol {asked} not supported")
