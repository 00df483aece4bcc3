"""Refuse, with an error, what dockerd can do for a container and this engine cannot yet, instead of ignoring it.

There is one table for each part of the request; the engine obeys every key that is in none of them. A row is removed
when its feature is built. Pure; runs in the daemon's request threads, after all invalid values have been refused.
"""

from collections.abc import Callable

from engine.annotating import Literal
from engine.daemon.containers.output import logconfig
from engine.daemon.containers.shapes import HostConfig
from engine.errors import NotBuilt


def _given(value: object) -> bool:
    return bool(value)


# key → does this value ask for something that is not built?
HOST_CONFIG: dict[Literal["Cgroup"], Callable[[object], bool]] = {
    "Cgroup": _given,
}


def refuse(host_config: HostConfig) -> None:
    """Raise NotBuilt, naming the field, for the first thing in the request that this engine does not have yet.

    host_config: complete (see `config`)
    """
    for key, asks in HOST_CONFIG.items():
        if asks(host_config[key]):
            raise NotBuilt(f"HostConfig.{key} is not built yet in this engine")
    logconfig.refuse_what_is_not_built(host_config["LogConfig"])
