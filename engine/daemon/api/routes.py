"""Every endpoint of the Engine API: one row each, with its handler, or among those that are not built yet.

Data only, read once when the dispatcher is made. A test compares the rows with the definition.
"""

from importlib import import_module

from engine.daemon.api.answers import Response
from engine.daemon.api.dispatch import Handler, Route
from engine.daemon.api.handlers import containers, images, system
from engine.daemon.api.request import Request
from engine.errors import NotBuilt


class Late:
    """The handler `name` of that module of `handlers`, loaded by the first request: an idle daemon has none of it."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str):
        self.module = module
        self.name = name

    def loaded(self) -> Handler:
        """The function itself."""
        return getattr(import_module(f"engine.daemon.api.handlers.{self.module}"), self.name)

    def __call__(self, engine: object, request: Request) -> Response | None:
        return self.loaded()(engine, request)


_ROUTES = (
    Route("GET", "/_ping", system.ping),
    Route("HEAD", "/_ping", system.ping),
    Route("GET", "/version", system.version),
    Route("GET", "/info", system.info),
    Route("POST", "/auth", system.auth),
    Route("GET", "/events", Late("events", "events")),
    Route("GET", "/containers/json", containers.list_),
    Route("POST", "/containers/create", containers.create),
    Route("GET", "/containers/{id}/json", containers.inspect),
    Route("POST", "/containers/{id}/start", containers.start),
    Route("POST", "/containers/{id}/wait", containers.wait),
    Route("GET", "/containers/{id}/logs", containers.logs),
    Route("POST", "/containers/{id}/attach", containers.attach, raw_errors=True),
    Route("POST", "/containers/{id}/stop", containers.stop),
    Route("POST", "/containers/{id}/kill", containers.kill),
    Route("POST", "/containers/{id}/resize", containers.resize),
    Route("GET", "/containers/{id}/attach/ws", Late("websocket", "attach")),
    Route("GET", "/containers/{id}/stats", Late("observe", "stats")),
    Route("GET", "/containers/{id}/top", Late("observe", "top")),
    Route("POST", "/containers/{id}/restart", Late("life", "restart")),
    Route("POST", "/containers/{id}/rename", Late("life", "rename")),
    Route("POST", "/containers/{id}/pause", Late("life", "pause")),
    Route("POST", "/containers/{id}/unpause", Late("life", "unpause")),
    Route("POST", "/containers/prune", Late("life", "prune")),
    Route("POST", "/containers/{id}/update", Late("update", "update")),
    Route("DELETE", "/containers/{id}", containers.remove),
    Route("POST", "/containers/{id}/exec", Late("execs", "create")),
    Route("POST", "/exec/{id}/start", Late("execs", "start")),
    Route("POST", "/exec/{id}/resize", Late("execs", "resize")),
    Route("GET", "/exec/{id}/json", Late("execs", "inspect")),
    Route("GET", "/containers/{id}/changes", Late("files", "changes")),
    Route("GET", "/containers/{id}/export", Late("files", "export")),
    Route("HEAD", "/containers/{id}/archive", Late("files", "archive_status")),
    Route("GET", "/containers/{id}/archive", Late("files", "archive_get")),
    Route("PUT", "/containers/{id}/archive", Late("files", "archive_put")),
    Route("POST", "/commit", Late("files", "commit")),
    Route("POST", "/build", Late("build", "build")),
    Route("POST", "/build/prune", Late("build", "prune")),
    Route("POST", "/images/create", images.create),
    Route("GET", "/images/json", images.list_),
    Route("GET", "/images/search", Late("registries", "search_")),
    Route("POST", "/images/{name...}/push", Late("registries", "push_")),
    Route("GET", "/distribution/{name...}/json", Late("registries", "distribution_inspect")),
    Route("POST", "/images/load", Late("archives", "load")),
    Route("GET", "/images/get", Late("archives", "get_all")),
    Route("GET", "/images/{name...}/get", Late("archives", "get")),
    Route("GET", "/images/{name...}/json", images.inspect),
    Route("GET", "/images/{name...}/history", Late("imagemeta", "history")),
    Route("POST", "/images/{name...}/tag", Late("imagemeta", "tag")),
    Route("POST", "/images/prune", Late("imagemeta", "prune")),
    Route("DELETE", "/images/{name...}", images.remove),
    Route("GET", "/volumes", Late("volumes", "list_")),
    Route("POST", "/volumes/create", Late("volumes", "create")),
    Route("POST", "/volumes/prune", Late("volumes", "prune")),
    Route("GET", "/volumes/{name}", Late("volumes", "inspect")),
    Route("PUT", "/volumes/{name}", Late("volumes", "update")),
    Route("DELETE", "/volumes/{name}", Late("volumes", "remove")),
)

# A row moves from here to the table above when it is built.
NOT_BUILT = (
    ("POST", "/session"),
    ("GET", "/system/df"),
    ("GET", "/networks"),
    ("POST", "/networks/create"),
    ("POST", "/networks/prune"),
    ("GET", "/networks/{id}"),
    ("DELETE", "/networks/{id}"),
    ("POST", "/networks/{id}/connect"),
    ("POST", "/networks/{id}/disconnect"),
    ("GET", "/plugins"),
    ("GET", "/plugins/privileges"),
    ("POST", "/plugins/pull"),
    ("POST", "/plugins/create"),
    ("GET", "/plugins/{name...}/json"),
    ("DELETE", "/plugins/{name...}"),
    ("POST", "/plugins/{name...}/enable"),
    ("POST", "/plugins/{name...}/disable"),
    ("POST", "/plugins/{name...}/upgrade"),
    ("POST", "/plugins/{name...}/push"),
    ("POST", "/plugins/{name...}/set"),
    ("GET", "/swarm"),
    ("POST", "/swarm/init"),
    ("POST", "/swarm/join"),
    ("POST", "/swarm/leave"),
    ("POST", "/swarm/update"),
    ("GET", "/swarm/unlockkey"),
    ("POST", "/swarm/unlock"),
    ("GET", "/nodes"),
    ("GET", "/nodes/{id}"),
    ("DELETE", "/nodes/{id}"),
    ("POST", "/nodes/{id}/update"),
    ("GET", "/services"),
    ("POST", "/services/create"),
    ("GET", "/services/{id}"),
    ("DELETE", "/services/{id}"),
    ("POST", "/services/{id}/update"),
    ("GET", "/services/{id}/logs"),
    ("GET", "/tasks"),
    ("GET", "/tasks/{id}"),
    ("GET", "/tasks/{id}/logs"),
    ("GET", "/secrets"),
    ("POST", "/secrets/create"),
    ("GET", "/secrets/{id}"),
    ("DELETE", "/secrets/{id}"),
    ("POST", "/secrets/{id}/update"),
    ("GET", "/configs"),
    ("POST", "/configs/create"),
    ("GET", "/configs/{id}"),
    ("DELETE", "/configs/{id}"),
    ("POST", "/configs/{id}/update"),
)


def _not_built(method: str, pattern: str) -> Handler:
    text = f"{method} {pattern.replace('...', '')} is not built yet in this engine"

    def refuse(engine: object, request: object) -> None:
        raise NotBuilt(text)

    return refuse


ROUTES = (*_ROUTES, *(Route(method, pattern, _not_built(method, pattern)) for method, pattern in NOT_BUILT))
