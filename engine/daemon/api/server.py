"""The daemon's API server: every endpoint, on every host of the settings.

Made and stopped by the daemon's main thread; it only joins the parts of this room.
"""

from engine.daemon.api.acceptor import Acceptor
from engine.daemon.api.dispatch import Dispatcher
from engine.daemon.api.listeners import open_listeners
from engine.daemon.api.routes import ROUTES
from engine.daemon.parts import DaemonParts


class Servers(Acceptor):
    """All that the daemon serves. Making it opens the listeners (see `listeners.open_listeners` for what it raises)."""

    def __init__(self, engine: DaemonParts):
        super().__init__(open_listeners(engine.settings), Dispatcher(engine, ROUTES))
