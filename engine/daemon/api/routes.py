"""The table of all endpoints of the Engine API: method, path pattern and handler of each, and the endpoints that are
refused.

Data only, read once when the dispatcher is made. A test compares the rows with the API's definition.
"""

from importlib import import_module

from engine.daemon.api.answers import Response
from engine.daemon.api.dispatch import Handler, Route
from engine.daemon.api.handlers import system
from engine.daemon.api.request import Request
from engine.daemon.parts import DaemonParts
from engine.errors import NotBuilt


class Late:
    """The handler `name` of a module of `handlers`. The first request imports the module, so that an idle daemon does
    without.
    """

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str):
        self.module = module
        self.name = name

    def loaded(self) -> Handler:
        """The handler function itself; imports its module."""
        found: Handler = getattr(import_module(f"engine.daemon.api.handlers.{self.module}"), self.name)
        return found

    def __call__(self, engine: DaemonParts, request: Request) -> Response | None:
        return self.loaded()(engine, request)


_ROUTES = (
    Route("GET", "/_ping", system.ping),
    Route("HEAD", "/_ping", system.ping),
    Route("GET", "/version", system.version),
    Route("GET", "/info", system.info),
    Route("POST", "/auth", system.auth),
    Route("GET", "/events", Late("events", "events")),
    Route("GET", "/containers/json", Late("containers.everyday", "list_")),
    Route("POST", "/containers/create", Late("containers.everyday", "create")),
    Route("GET", "/containers/{id}/json", Late("containers.everyday", "inspect")),
    Route("POST", "/containers/{id}/start", Late("containers.everyday", "start")),
    Route("POST", "/containers/{id}/wait", Late("containers.everyday", "wait")),
    Route("GET", "/containers/{id}/logs", Late("containers.everyday", "logs")),
    Route("POST", "/containers/{id}/attach", Late("containers.everyday", "attach"), raw_errors=True),
    Route("POST", "/containers/{id}/stop", Late("containers.everyday", "stop")),
    Route("POST", "/containers/{id}/kill", Late("containers.everyday", "kill")),
    Route("POST", "/containers/{id}/resize", Late("containers.everyday", "resize")),
    Route("GET", "/containers/{id}/attach/ws", Late("containers.websocket", "attach")),
    Route("GET", "/containers/{id}/stats", Late("containers.observe", "stats")),
    Route("GET", "/containers/{id}/top", Late("containers.observe", "top")),
    Route("POST", "/containers/{id}/restart", Late("containers.life", "restart")),
    Route("POST", "/containers/{id}/rename", Late("containers.life", "rename")),
    Route("POST", "/containers/{id}/pause", Late("containers.life", "pause")),
    Route("POST", "/containers/{id}/unpause", Late("containers.life", "unpause")),
    Route("POST", "/containers/prune", Late("containers.life", "prune")),
    Route("POST", "/containers/{id}/update", Late("containers.update", "update")),
    Route("DELETE", "/containers/{id...}", Late("containers.everyday", "remove")),
    Route("POST", "/containers/{id}/exec", Late("execs", "create")),
    Route("POST", "/exec/{id}/start", Late("execs", "start")),
    Route("POST", "/exec/{id}/resize", Late("execs", "resize")),
    Route("GET", "/exec/{id}/json", Late("execs", "inspect")),
    Route("GET", "/containers/{id}/changes", Late("containers.files", "changes")),
    Route("GET", "/containers/{id}/export", Late("containers.files", "export")),
    Route("HEAD", "/containers/{id}/archive", Late("containers.files", "archive_status")),
    Route("GET", "/containers/{id}/archive", Late("containers.files", "archive_get")),
    Route("PUT", "/containers/{id}/archive", Late("containers.files", "archive_put")),
    Route("POST", "/commit", Late("containers.files", "commit")),
    Route("POST", "/build", Late("build", "build")),
    Route("POST", "/build/cancel", Late("build", "cancel")),
    Route("POST", "/build/prune", Late("build", "prune")),
    Route("POST", "/grpc", Late("buildkit", "grpc")),
    Route("PRI", "*", Late("buildkit", "http_2")),
    Route("POST", "/session", Late("buildkit", "session")),
    Route("POST", "/images/create", Late("images.everyday", "create")),
    Route("GET", "/images/json", Late("images.everyday", "list_")),
    Route("GET", "/images/search", Late("images.registries", "search_")),
    Route("POST", "/images/{name...}/push", Late("images.registries", "push_")),
    Route("GET", "/distribution/{name...}/json", Late("images.registries", "distribution_inspect")),
    Route("POST", "/images/load", Late("images.archives", "load")),
    Route("GET", "/images/get", Late("images.archives", "get_all")),
    Route("GET", "/images/{name...}/get", Late("images.archives", "get")),
    Route("GET", "/images/{name...}/json", Late("images.everyday", "inspect")),
    Route("GET", "/images/{name...}/history", Late("images.names", "history")),
    Route("POST", "/images/{name...}/tag", Late("images.names", "tag")),
    Route("POST", "/images/prune", Late("images.names", "prune")),
    Route("DELETE", "/images/{name...}", Late("images.everyday", "remove")),
    Route("GET", "/volumes", Late("volumes", "list_")),
    Route("POST", "/volumes/create", Late("volumes", "create")),
    Route("POST", "/volumes/prune", Late("volumes", "prune")),
    Route("GET", "/volumes/{name...}", Late("volumes", "inspect")),
    Route("PUT", "/volumes/{name...}", Late("volumes", "update")),
    Route("DELETE", "/volumes/{name...}", Late("volumes", "remove")),
    Route("GET", "/networks", Late("networks", "list_")),
    Route("POST", "/networks/create", Late("networks", "create")),
    Route("POST", "/networks/prune", Late("networks", "prune")),
    Route("GET", "/networks/{id}", Late("networks", "inspect")),
    Route("DELETE", "/networks/{id}", Late("networks", "remove")),
    Route("POST", "/networks/{id}/connect", Late("networks", "connect")),
    Route("POST", "/networks/{id}/disconnect", Late("networks", "disconnect")),
    Route("GET", "/system/df", Late("usage", "df")),
    Route("GET", "/plugins", Late("plugins", "list_")),
    Route("GET", "/plugins/privileges", Late("plugins", "privileges")),
    Route("GET", "/plugins/{name...}/json", Late("plugins", "refuse")),
    Route("DELETE", "/plugins/{name...}", Late("plugins", "refuse")),
    Route("POST", "/plugins/{name...}/enable", Late("plugins", "enable")),
    Route("POST", "/plugins/{name...}/disable", Late("plugins", "refuse")),
    Route("POST", "/plugins/{name...}/upgrade", Late("plugins", "upgrade")),
    Route("POST", "/plugins/{name...}/push", Late("plugins", "refuse")),
    Route("POST", "/plugins/{name...}/set", Late("plugins", "set_")),
    Route("GET", "/swarm", Late("swarm", "refuse")),
    Route("POST", "/swarm/leave", Late("swarm", "leave")),
    Route("POST", "/swarm/update", Late("swarm", "update")),
    Route("GET", "/swarm/unlockkey", Late("swarm", "refuse")),
    Route("POST", "/swarm/unlock", Late("swarm", "create")),
    Route("GET", "/nodes", Late("swarm", "list_")),
    Route("GET", "/nodes/{id}", Late("swarm", "refuse")),
    Route("DELETE", "/nodes/{id}", Late("swarm", "refuse")),
    Route("POST", "/nodes/{id}/update", Late("swarm", "update")),
    Route("GET", "/services", Late("swarm", "list_")),
    Route("POST", "/services/create", Late("swarm", "create")),
    Route("GET", "/services/{id}", Late("swarm", "inspect_service")),
    Route("DELETE", "/services/{id}", Late("swarm", "refuse")),
    Route("POST", "/services/{id}/update", Late("swarm", "update")),
    Route("GET", "/services/{id}/logs", Late("swarm", "logs")),
    Route("GET", "/tasks", Late("swarm", "list_")),
    Route("GET", "/tasks/{id}", Late("swarm", "refuse")),
    Route("GET", "/tasks/{id}/logs", Late("swarm", "logs")),
    Route("GET", "/secrets", Late("swarm", "list_")),
    Route("POST", "/secrets/create", Late("swarm", "create")),
    Route("GET", "/secrets/{id}", Late("swarm", "refuse")),
    Route("DELETE", "/secrets/{id}", Late("swarm", "refuse")),
    Route("POST", "/secrets/{id}/update", Late("swarm", "update")),
    Route("GET", "/configs", Late("swarm", "list_")),
    Route("POST", "/configs/create", Late("swarm", "create")),
    Route("GET", "/configs/{id}", Late("swarm", "refuse")),
    Route("DELETE", "/configs/{id}", Late("swarm", "refuse")),
    Route("POST", "/configs/{id}/update", Late("swarm", "update")),
)

# What this engine refuses, and why. dockerd does these with parts that this engine does not have.
REFUSED = (
    ("POST", "/swarm/init", "it serves its own host alone, without a swarm"),
    ("POST", "/swarm/join", "it serves its own host alone, without a swarm"),
    ("POST", "/plugins/pull", "it runs no managed plugins"),
    ("POST", "/plugins/create", "it runs no managed plugins"),
)


def _not_built(method: str, pattern: str, reason: str) -> Handler:
    text = f"{method} {pattern} is not built in this engine: {reason}"

    def refuse(engine: DaemonParts, request: Request) -> None:
        raise NotBuilt(text)

    return refuse


ROUTES = (
    *_ROUTES,
    *(Route(method, pattern, _not_built(method, pattern, reason)) for method, pattern, reason in REFUSED),
)
