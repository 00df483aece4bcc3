"""Decide whether a container gets docker-init as its process 1 (Init), and find and mount that program.

Runs in the daemon's request threads at each start. The program is the engine's own (`_muxer/process/dockerinit.c`)
unless the daemon's settings name another one. It is bound over the container's /sbin/docker-init, as docker does, and
read-only.
"""

import os
import threading

from engine import origin
from engine.daemon.containers.shapes import HostConfig
from engine.errors import SystemFailure
from engine.sandbox.spec import Mount
from engine.settings.every import Settings

PLACE = "/sbin/docker-init"
_NAME = "docker-init"


def is_wanted(settings: Settings, host_config: HostConfig) -> bool:
    """Whether the container gets docker-init; a joined PID namespace has a process 1 already, so there it does not."""
    asked = host_config["Init"]
    return bool((settings.init if asked is None else asked) and host_config["PidMode"] == "")


def mount(settings: Settings) -> Mount:
    """The program's bind mount, which an image's links cannot lead into /proc. Raises SystemFailure without one."""
    return Mount("bind", program(settings), PLACE, ("ro",), propagation="rprivate", asked=True)


def program(settings: Settings) -> str:
    """The host's path of the program. Raises SystemFailure, in docker's words, where there is none."""
    import shutil  # imported here, since only a container with Init needs it

    if settings.init_path:
        places = [settings.init_path]
    else:
        places = [_built(settings.data_root), shutil.which(_NAME) or ""]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    if settings.init_path:
        raise SystemFailure(f'exec: "{settings.init_path}": executable file not found (the daemon\'s --init-path)')
    raise SystemFailure(
        f'exec: "{_NAME}": executable file not found in $PATH: the engine\'s own was not built'
        " (python3 -m _muxer.build), and no other was named (--init-path)"
    )


def _built(data_root: str) -> str:
    """The path of the engine's own program, which need not exist.

    A mount needs a file: that of an engine in one file is written below the data root, where containers' programs can
    be executed too.
    """
    root = origin.root()
    if root is not None:
        return os.path.join(root, "_muxer", _NAME)
    data, path = origin.compiled(_NAME), os.path.join(data_root, _NAME)
    if data is not None and not _has(path, data):
        os.makedirs(data_root, exist_ok=True)
        new = f"{path}.{threading.get_ident()}"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o755), "wb") as file:
            os.fchmod(file.fileno(), 0o755)
            file.write(data)
        os.rename(new, path)  # a container that runs keeps the old one
    return path


def _has(path: str, data: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read() == data
    except FileNotFoundError:
        return False


def command(container_path: str, arguments: list[str]) -> tuple[str, ...]:
    """The command line of process 1, as docker writes it."""
    return (PLACE, "--", container_path, *arguments)
