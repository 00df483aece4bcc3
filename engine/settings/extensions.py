"""Declares the daemon's options about plugins: where they are looked for, and which of them authorize requests.

Pure. `authorization-plugin` is dockerd's, with its key. dockerd has no option for the directories, which are its own.
"""

import os
from collections.abc import Mapping

from engine.commandline import Option
from engine.errors import Invalid
from engine.settings.listening import path

_DIRECTORIES = ("/run/docker/plugins", "/etc/docker/plugins", "/usr/lib/docker/plugins")


def directories(uid: int, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where a user's daemon looks for plugins by default; dockerd's places for root's."""
    if uid == 0:
        return _DIRECTORIES
    home = environ.get("HOME") or "/"
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    configuration = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    bases = (runtime, configuration, os.path.join(home, ".local", "lib"))
    return tuple(os.path.join(base, "docker", "plugins") for base in bases)


def _directory(text: str) -> str:
    if not text:
        raise Invalid("the path is empty")
    return path(text)


OPTIONS = (
    Option(
        "authorization-plugin",
        "Plugin that is asked about each request and its answer; repeatable, and all have to allow it",
        kind="list",
        default=(),
        value="name",
        key="authorization-plugins",
    ),
    Option(
        "plugin-dir",
        "Directory of sockets and spec files of plugins; repeatable",
        kind="list",
        check=_directory,
        default=_DIRECTORIES,
        value="path",
        key="plugin-dirs",
    ),
)
