"""What dockerd has for a container and this engine does not have yet: refused in words, never silently ignored.

One table a part of the request: a key that stands in none of them is obeyed. A row is taken out when its part is built.
Pure; runs in the daemon's request threads, after everything that is wrong in itself has been refused.
"""

from collections.abc import Callable

from engine.daemon.containers.output import logconfig
from engine.daemon.jsontext import Object
from engine.errors import NotBuilt


def _given(value: object) -> bool:
    return bool(value)


# key → is this value one that asks for something not built?
HOST_CONFIG: dict[str, Callable[[object], bool]] = {
    "Cgroup": _given,
}


def refuse(host_config: Object) -> None:
    """Raise NotBuilt, naming the field, for the first thing asked that this engine does not have yet.

    host_config: complete (see `config`)
    """
    for key, asks in HOST_CONFIG.items():
        if asks(host_config[key]):
            raise NotBuilt(f"HostConfig.{key} is not built yet in this engine")
    logconfig.refuse_what_is_not_built(host_config["LogConfig"])
