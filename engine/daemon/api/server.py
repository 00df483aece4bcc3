"""Joins listeners, routes and dispatcher into the daemon's API server, which serves every endpoint on every host of the
settings.

The daemon's main thread makes and stops it.
"""

from engine.daemon.api import versions
from engine.daemon.api.acceptor import Acceptor
from engine.daemon.api.dispatch import Dispatcher
from engine.daemon.api.listeners import open_listeners
from engine.daemon.api.routes import ROUTES
from engine.daemon.parts import DaemonParts


class Servers(Acceptor):
    """All that the daemon serves. Making it opens the listeners, and raises what `listeners.open_listeners` raises."""

    def __init__(self, engine: DaemonParts):
        versions.declare(engine.settings.experimental, engine.settings.min_api_version)
        super().__init__(open_listeners(engine.settings), Dispatcher(engine, ROUTES))
