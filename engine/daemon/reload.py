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
from engine.dataclass import fields, replace
from engine.errors import EngineError
from engine.redact import proxy, redacted
from engine.settings import runtimes
from engine.settings.every import Settings

log = logging.getLogger(__name__)

_NOT_SHOWN = ("gc", "notes", "unguarded")

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
    log.info("Reloaded configuration: %s", _shown(chosen))
    engine.events.publish("daemon", "reload", engine.id, {"name": socket.gethostname(), **_told(chosen)})


def _shown(settings: Settings) -> str:
    """Every setting that has a value, by its key in daemon.json, without what nobody is to read."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings) if each.name not in _NOT_SHOWN}
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        values[name] = proxy(values[name])
    values["log_opts"] = [_without_secret(option) for option in settings.log_opts]
    shown = {name.replace("_", "-"): value for name, value in values.items() if value not in ("", (), [])}
    return json.dumps(shown, separators=(",", ":"), sort_keys=True)


def _without_secret(option: str) -> str:
    """An option of a log driver, `name=value`: a token, and the credentials in a URL, are replaced."""
    name, _, value = option.partition("=")
    return f"{name}={'xxxxx' if 'token' in name else redacted(value)}"


def _told(settings: Settings) -> dict[str, str]:
    """Each changeable setting by its key in daemon.json: a text as it is, anything else as JSON."""
    values = {name.replace("_", "-"): getattr(settings, name) for name in CHANGEABLE}
    told = {
        key: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for key, value in values.items()
    }
    features = dict(each.split("=", 1) for each in settings.features)
    told["features"] = f"map[{' '.join(f'{name}:{value}' for name, value in sorted(features.items()))}]"
    programs = {runtimes.STOCK: (runtimes.STOCK,), **runtimes.programs(settings.runtimes)}
    told["runtimes"] = " ".join(f"{name}:{program[0]}" for name, program in programs.items())
    return {**told, "default-runtime": settings.default_runtime}
