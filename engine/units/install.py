"""`engine install-units`: writes the units of systemd for this copy of the engine, and says how to enable them.

Runs in a process of its own, for an operator. It only writes the files: it runs no program and asks no daemon. The
files beside this module are the units as a distribution may ship them, for an engine that is installed; of a clone
they start the clone.
"""

import importlib.util
import os
import shutil
import sys

from engine import origin
from engine.commandline import Given, Option, given_text
from engine.errors import Invalid, SystemFailure
from engine.kernel import wholefile
from engine.tool import Tool

UNITS = ("engine.socket", "engine.service", "engine-poweroff.service")
_ENABLED = UNITS[:2]  # the service asks for the third one
_START = "ExecStart=/usr/bin/engined"
_STOP = "ExecStop=/usr/bin/engine power-off"
_GROUP = "SocketGroup=root"
_OF_HOST, _OF_USERS = "/etc/systemd/system", "~/.config/systemd/user"


def _install(given: Given) -> None:
    of_user = bool(given.get("user"))
    if of_user and "group" in given:
        raise Invalid("--group goes with root's units: a user's socket is for that user alone")
    texts = {name: unit(name, given_text(given, "group", "root"), start(), of_user) for name in UNITS}
    if given.get("show"):
        print("\n".join(f"# {name}\n{text}" for name, text in texts.items()), end="")
        return
    directory = given_text(given, "directory", _of_this_user() if of_user else _OF_HOST)
    for name, text in texts.items():
        path = os.path.join(directory, name)
        try:
            if of_user:
                os.makedirs(directory, exist_ok=True)
            wholefile.write(path, text)
            os.chmod(path, 0o644)
        except OSError as error:
            raise SystemFailure(f"{path} cannot be written: {error.strerror}") from error
        print(f"wrote {path}")
    systemctl = "systemctl --user" if of_user else "systemctl"
    print(f"To use them: {systemctl} daemon-reload && {systemctl} enable --now {' '.join(_ENABLED)}")
    if of_user:
        print(
            "systemd ends all that a user runs at the last logout, containers too. To keep them: loginctl enable-linger"
        )


def _of_this_user() -> str:
    """Where systemd looks for a user's own units (systemd.unit(5))."""
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "systemd", "user")


def unit(name: str, group: str, command: str, of_user: bool = False) -> str:
    """The text of a unit. group: of the socket; command: what starts the daemon, with further lines for [Service]

    of_user: the unit is for a user's systemd
    """
    text = origin.data(f"units/user/{name}" if of_user else f"units/{name}").decode()
    stops = _of_this_copy("ExecStop", "engine", "power-off")
    return text.replace(_START, command).replace(_STOP, stops).replace(_GROUP, f"SocketGroup={group}")


def start() -> str:
    """The lines of [Service] that start the daemon of this copy of the engine."""
    return _of_this_copy("ExecStart", "engined", "daemon")


def _of_this_copy(key: str, name: str, verb: str) -> str:
    """The lines of [Service] that run a verb of this copy: of the one file, of an installed command, or of the tree.

    name: of the command, `engined` for the daemon alone
    """
    tree = origin.root()
    if tree is None:
        return f"{key}={' '.join(map(_quoted, origin.starts()))} {verb}"
    program = shutil.which(name, path=os.path.dirname(os.path.abspath(sys.argv[0])))
    if program is not None and _is_installed():
        return f"{key}={_quoted(program)}" if name == "engined" else f"{key}={_quoted(program)} {verb}"
    return f"WorkingDirectory={tree.replace('%', '%%')}\n{key}={_quoted(sys.executable)} -m engine {verb}"


def _is_installed() -> bool:
    """Whether Python finds this package from any directory."""
    found = importlib.util.find_spec("engine")
    return found is not None and "site-packages" in (found.origin or "")


def _quoted(path: str) -> str:
    """A path as systemd.service(5) has it in ExecStart: quoted where needed, its specifiers doubled."""
    escaped = path.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"' if any(each in path for each in " \t\"'\\;") else escaped


_OPTIONS = (
    Option("directory", f"Where the units go; with --user {_OF_USERS}", default=_OF_HOST, value="DIR"),
    Option("user", "Units for the daemon of the user who calls", kind="flag", default=False),
    Option("group", "Group that may use the socket", short="G", default="root", value="GROUP"),
    Option("show", "Show the units and write nothing", kind="flag", default=False),
)
TOOL = Tool(
    "install-units",
    "Write units for systemd: a socket, a service that the socket or the boot starts, and one for a power-off",
    _OPTIONS,
    _install,
)
main, usage = TOOL.main, TOOL.usage
