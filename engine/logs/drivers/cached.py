"""What the log drivers that send their lines elsewhere have in common: the forwarding itself, and the log kept beside.

Pure; used by the daemon's request threads. dockerd calls the log beside the cache: `docker logs` reads it, since what
was sent cannot be read back.
"""

from engine.logs.attributes import Described, extra
from engine.logs.drivers import gojson, local, options
from engine.logs.target import FRAMES, LINES, NOTHING, Config, Forward, LogTarget, Place


def target(driver: str, values: dict[str, str], config: Config, described: Described, place: Place) -> LogTarget:
    """The log kept beside, if any, and whom the lines are sent to. values: what the driver's `Sender` is made from"""
    forward = Forward(driver, tuple(values.items()), options.ring(config))
    limits = local.cache(config)
    if limits is None:
        return LogTarget("", forward=forward)
    return local.kept(limits, described, place, forward, gojson.attributes(extra(config, described)))


def form(config: Config) -> str:
    """What a reader finds beside."""
    limits = local.cache(config)
    return NOTHING if limits is None else LINES if limits[2] else FRAMES


def file(_container_id: str) -> str:
    """inspect shows no LogPath."""
    return ""


def details(config: Config, described: Described) -> dict[str, str]:
    """The labels and variables that the options name."""
    return extra(config, described)
