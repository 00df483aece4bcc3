"""What the log drivers that send their lines elsewhere have in common: the forwarding itself, and the log kept beside.

Pure; used by the daemon's request threads. dockerd calls the log beside the cache: `docker logs` reads it, since what
was sent cannot be read back.
"""

from engine.logs.attributes import Described, extra
from engine.logs.drivers import local, options
from engine.logs.target import FRAMES, NOTHING, Config, Forward, LogTarget, Place


def target(driver: str, values: dict[str, str], config: Config, place: Place) -> LogTarget:
    """The log kept beside, if any, and whom the lines are sent to. values: what the driver's `Sender` is made from"""
    forward = Forward(driver, tuple(values.items()), options.ring(config))
    cache = local.cache(config)
    if cache is None:
        return LogTarget("", forward=forward)
    size, files = cache
    return LogTarget(place.log, size, files, forward=forward)


def form(config: Config) -> str:
    """What a reader finds beside."""
    return NOTHING if local.cache(config) is None else FRAMES


def file(_container_id: str) -> str:
    """inspect shows no LogPath."""
    return ""


def details(config: Config, described: Described) -> dict[str, str]:
    """The labels and variables that the options name."""
    return extra(config, described)
