"""Says where each user's daemon has its socket, its roots and its configuration file by default.

Pure: from a user's number, the environment and the program's name to paths. Root's places are the host's own. Another
user's are below the directories of the XDG Base Directory Specification: what lasts below the home directory, and what
ends with the session below XDG_RUNTIME_DIR. The client looks for the daemon's socket by the same rules.

A daemon that is started by the name `dockerd` is in dockerd's place: clients, units and tools look for its socket, its
pid file and its configuration file where dockerd's are. Its roots stay the engine's own, because dockerd's own data
root may be there still, and is of another form.
"""

import os
import stat
import sys
from collections.abc import Callable, Mapping

from engine.dataclass import dataclass
from engine.errors import Unavailable

OWNER = "ENGINE_OWNER"
"""The variable by which a daemon in a user namespace, where it is root, knows the user's number on the host."""
HOME = "ENGINE_HOME"
"""The variable by which it knows the namespaces that it is to live in, see `rootless.home`."""
DOCKERD = "dockerd"
"""The name of a program that takes dockerd's place."""
ENGINE = "engine daemon"


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of one user's daemon. runtime: the directory of all that ends with the session; it must exist.

    group: the group that may use the socket; empty for none
    """

    runtime: str
    data_root: str
    exec_root: str
    pidfile: str
    config_file: str
    socket: str
    group: str = ""


ROOTS = Places(
    "/run", "/var/lib/engine", "/run/engine", "/run/engine.pid", "/etc/engine/daemon.json", "/run/engine.sock"
)
"""The places of the host's own daemon."""
_DOCKERDS = Places(
    "/var/run",
    ROOTS.data_root,
    ROOTS.exec_root,
    "/var/run/docker.pid",
    "/etc/docker/daemon.json",
    "/var/run/docker.sock",
    "docker",
)


def program(called: str | None = None) -> str:
    """The name of the program that this process is: `dockerd`, or `engine daemon`.

    called: the path by which it was started, by default this process's own
    """
    return DOCKERD if os.path.basename(sys.argv[0] if called is None else called) == DOCKERD else ENGINE


def owner(environ: Mapping[str, str], uid: int) -> int:
    """The number, on the host, of the user whose daemon this process is or asks for; `uid`: its own number here."""
    told = environ.get(OWNER, "")
    return int(told) if uid == 0 and told.isascii() and told.isdecimal() else uid


def of(uid: int, environ: Mapping[str, str], name: str = ENGINE) -> Places:
    """The places of a user. Without XDG_RUNTIME_DIR `runtime` is the one that systemd-logind makes for the user.

    name: of the program, see `program`
    """
    if uid == 0:
        return _DOCKERDS if name == DOCKERD else ROOTS
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    home = environ.get("HOME") or "/"
    data = environ.get("XDG_DATA_HOME") or f"{home}/.local/share"
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    own = "docker" if name == DOCKERD else "engine"
    return Places(
        runtime,
        f"{data}/engine",
        f"{runtime}/engine",
        f"{runtime}/{own}.pid",
        f"{config}/{own}/daemon.json",
        f"{runtime}/{own}.sock",
    )


def check(uid: int, environ: Mapping[str, str], look: Callable[[str], os.stat_result] = os.stat) -> None:
    """Raise Unavailable for a user's daemon that has no place for its sockets, or one in which others may put files: a
    link there would lead the daemon elsewhere (XDG Base Directory Specification, "MUST be owned by the user").
    """
    if not uid:
        return
    runtime = environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        raise Unavailable(f"XDG_RUNTIME_DIR is not set: a user's daemon has its sockets there. {_WANTED}")
    try:
        found = look(runtime)
    except OSError as error:
        raise Unavailable(f"XDG_RUNTIME_DIR is {runtime}: {error.strerror}. {_WANTED}") from error
    if found.st_uid != uid:
        raise Unavailable(f"XDG_RUNTIME_DIR is {runtime}, which belongs to the user {found.st_uid}. {_WANTED}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise Unavailable(f"XDG_RUNTIME_DIR is {runtime}, to which others may write (mode {mode}). {_WANTED}")


_WANTED = (
    "A login by systemd-logind sets it; without one, set it to a directory of mode 0700 that is the user's own and is"
    " emptied at each boot"
)


def default_host(uid: int, environ: Mapping[str, str], name: str = ENGINE) -> str:
    """The address at which this user's daemon listens by default. name: of the program, see `program`"""
    return f"unix://{of(uid, environ, name).socket}"


def socket_of_client(uid: int, environ: Mapping[str, str], exists: Callable[[str], bool] = os.path.exists) -> str:
    """The socket that this user's client connects to by default: the user's own, else the host's where only that one is
    there.
    """
    own = of(uid, environ).socket
    return ROOTS.socket if not exists(own) and exists(ROOTS.socket) else own
