"""Joins listeners, routes and dispatcher into the daemon's API server, which serves every endpoint on every host of the
settings.

The daemon's main thread makes and stops it.
"""

from engine.daemon import measured
from engine.daemon.api import versions
from engine.daemon.api.acceptor import Acceptor
from engine.daemon.api.answers import Response
from engine.daemon.api.connection import Application
from engine.daemon.api.dispatch import Dispatcher
from engine.daemon.api.listeners import open_listeners, open_metrics
from engine.daemon.api.request import Request
from engine.daemon.api.routes import ROUTES
from engine.daemon.parts import DaemonParts
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # most daemons serve no metrics and ask no plugins
    from engine.daemon.api import authorization, metricspage
else:
    authorization = late("engine.daemon.api.authorization")
    metricspage = late("engine.daemon.api.metricspage")


class Servers(Acceptor):
    """All that the daemon serves. Making it opens the listeners, and raises what `listeners.open_listeners` raises."""

    def __init__(self, engine: DaemonParts):
        settings = engine.settings
        versions.declare(settings.experimental, settings.min_api_version, settings.report_version)
        if names := engine.settings.authorization_plugins:
            authorization.check(engine.plugins, names)
        super().__init__(open_listeners(engine.settings), _guarded(engine, Dispatcher(engine, ROUTES)))
        self._metrics: Acceptor | None = None
        if engine.settings.metrics_addr:
            measured.begin()
            self._metrics = Acceptor(open_metrics(engine.settings.metrics_addr), metricspage.MetricsPage(engine))

    def start(self) -> None:
        """Begin to accept connections; returns at once."""
        if self._metrics is not None:
            self._metrics.start()
        super().start()

    def stop(self, seconds: float = 5.0) -> None:
        """Accept no more, and let the answers under way end for at most `seconds`."""
        if self._metrics is not None:
            self._metrics.stop(0.0)
        super().stop(seconds)


def _guarded(engine: DaemonParts, serve: Application) -> Application:
    """Asks the authorization plugins first, while the settings name any; a reload may change them."""

    def guarded(request: Request) -> Response | None:
        names = engine.settings.authorization_plugins
        if not names:
            return serve(request)
        return authorization.Authorized(serve, engine.plugins, names)(request)

    return guarded
