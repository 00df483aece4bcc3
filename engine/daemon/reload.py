"""Reloads the configuration at SIGHUP, and takes over the settings that may change while the daemon runs.

Runs on the daemon's main thread. A changeable setting gets the value that a restart would give it; all others keep
theirs until a restart. A request that has begun keeps the settings with which it began.
"""

import json
import logging
import socket
from collections.abc import Callable

from engine.daemon import loglines
from engine.daemon.latepart import is_made
from engine.daemon.parts import DaemonParts
from engine.daemon.plugins.activation import AUTHORIZATION
from engine.dataclass import replace
from engine.errors import EngineError
from engine.settings.every import Settings

log = logging.getLogger(__name__)

CHANGEABLE = (
    *("debug", "insecure_registries", "registry_mirrors", "labels", "features", "live_restore", "shutdown_timeout"),
    *("max_concurrent_downloads", "max_concurrent_uploads", "max_download_attempts"),
    "authorization_plugins",
    *("default_cgroupns_mode", "default_ipc_mode", "default_shm_size", "default_stop_timeout"),
)
"""The settings that dockerd reloads too and that this daemon looks up at each use, so that a change takes effect."""


def reload(engine: DaemonParts, read: Callable[[], Settings]) -> None:
    """Take over what has changed, log it and publish an event; a configuration that cannot be read changes nothing.

    read: returns the settings that a daemon started now would have; raises EngineError
    """
    try:
        found = read()
        for name in found.authorization_plugins:
            engine.plugins.get(name, AUTHORIZATION)
    except EngineError as error:
        log.error("the configuration could not be reloaded: %s", error)
        return
    chosen = replace(engine.settings, **{name: getattr(found, name) for name in CHANGEABLE})
    engine.settings = chosen
    if is_made(engine, "images"):
        engine.images.settings = chosen
    logging.getLogger().setLevel(loglines.level(chosen))
    log.info("the configuration is reloaded: debug %s", "on" if chosen.debug else "off")
    engine.events.publish("daemon", "reload", engine.id, {"name": socket.gethostname(), **_told(chosen)})


def _told(settings: Settings) -> dict[str, str]:
    """Each changeable setting by its key in daemon.json: a text as it is, anything else as JSON."""
    values = {name.replace("_", "-"): getattr(settings, name) for name in CHANGEABLE}
    return {
        key: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for key, value in values.items()
    }
