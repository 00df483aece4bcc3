"""Declares the daemon's option to end while nothing is to be done, and its default in the environment.

Pure. Whoever holds the daemon's sockets, systemd's units or `engine listen`, sets the variable: so the number is a
default there, and an operator's daemon.json or command line may still name another one.
"""

from collections.abc import Mapping

from engine.commandline import Option
from engine.errors import Invalid
from engine.literals import natural

KEY = "idle-exit"
VARIABLE = "ENGINE_IDLE_EXIT"
"""The variable that has the number where neither the command line nor daemon.json has one."""
USUAL = 60
"""The number that the units and `engine listen` set."""
_MOST = 366 * 24 * 3600


def _seconds(text: str) -> str:
    number = natural(text, _MOST) if text else None
    if number is None:
        raise Invalid(f"give whole seconds, at most {_MOST}; 0 is never")
    return str(number)


def of_environment(environ: Mapping[str, str]) -> int:
    """The seconds that the environment asks for, 0 for none. Raises Invalid."""
    try:
        return int(_seconds(environ.get(VARIABLE) or "0"))
    except Invalid as error:
        raise Invalid(f"{VARIABLE}: {error}") from error


OPTIONS = (
    Option(
        KEY,
        "End after so many seconds with nothing to do, where systemd or `engine listen` holds the sockets; 0: never",
        kind="number",
        default=0,
        check=_seconds,
        value="seconds",
        key=KEY,
    ),
)
