"""SIGHUP: read the settings anew, and take over those that may change while the daemon runs.

Runs on the daemon's main thread. What is taken over is what a restart would find; all else waits for one. A request
that has begun keeps the settings that it began with.
"""

import json
import logging
import socket
from collections.abc import Callable
from dataclasses import replace

from engine.daemon import loglines
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError
from engine.settings.every import Settings

log = logging.getLogger(__name__)

CHANGEABLE = ("debug", "insecure_registries", "registry_mirrors")
"""The settings that are asked for whenever they are needed, of those that dockerd takes over too."""


def reload(engine: DaemonParts, read: Callable[[], Settings]) -> None:
    """Take over what has changed and tell it; a configuration that cannot be read changes nothing.

    read: the settings as a daemon that starts now would have them; raises EngineError
    """
    try:
        found = read()
    except EngineError as error:
        log.error("the configuration is not reloaded: %s", error)
        return
    chosen = replace(engine.settings, **{name: getattr(found, name) for name in CHANGEABLE})
    engine.settings = engine.images.settings = chosen
    logging.getLogger().setLevel(loglines.level(chosen))
    log.info("the configuration is reloaded: debug %s", "on" if chosen.debug else "off")
    engine.events.publish("daemon", "reload", engine.id, {"name": socket.gethostname(), **_told(chosen)})


def _told(settings: Settings) -> dict[str, str]:
    """Each by its key in daemon.json, as JSON."""
    return {name.replace("_", "-"): json.dumps(getattr(settings, name), separators=(",", ":")) for name in CHANGEABLE}
