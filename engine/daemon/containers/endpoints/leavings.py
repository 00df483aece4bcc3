"""Remove the host's veth interfaces of ended containers where the kernel does not remove them with the namespace.

A wire is here the veth pair of an endpoint. It goes with its container's network namespace. A namespace stays while
another container is in it, or a connection whose other end does not answer its close: the kernel keeps such a
connection for minutes. Each wire has a file of its name in the exec root until it has gone, so that a daemon which is
killed meanwhile leaves none behind. Runs in the thread that hears of an end, in the schedule's thread, in threads of
its own, and at a daemon's start and its stop in the main thread.
"""

import logging
import os
import re

from engine.daemon.containers import paths
from engine.daemon.parts import EndpointParts
from engine.daemon.runtime.background import later
from engine.errors import SystemFailure

log = logging.getLogger(__name__)

_DYING_SECONDS = 1.0  # the kernel has removed a namespace that nothing holds by then
_NAME = re.compile(r"veth[0-9a-f]+")


def note(engine: EndpointParts, names: list[str]) -> None:
    """Write the notes of these wires, before the daemon forgets to which container they belonged."""
    try:
        for name in names:
            try:
                _touch(_place(engine, name))
            except FileNotFoundError:  # the first note of this boot
                os.makedirs(_place(engine), 0o700, exist_ok=True)
                _touch(_place(engine, name))
    except OSError as error:  # a full disk
        log.warning(
            "cannot note the interfaces %s; they may stay if the daemon is killed now: %s", " ".join(names), error
        )


def take_away(engine: EndpointParts, names: list[str], *, held: bool) -> None:
    """Have these wires removed. held: another container is in their namespace, so they will not go by themselves."""
    if held and names:
        later(_discard, engine, names)
    elif names:
        engine.schedule.at(_DYING_SECONDS, _look, engine, names)


def clear(engine: EndpointParts) -> None:
    """Remove all wires that are noted, without waiting for them to go by themselves."""
    try:
        names = [name for name in os.listdir(_place(engine)) if _NAME.fullmatch(name)]
    except FileNotFoundError:  # the usual case
        return
    if names:
        _discard(engine, names)


def _look(engine: EndpointParts, names: list[str]) -> None:
    """Remove, in another thread, the few wires that have not gone by themselves: a removal may take a while."""
    try:
        left = engine.wiring.remaining(names)
    except SystemFailure as error:
        log.warning("cannot tell whether the interfaces %s still exist: %s", " ".join(names), error)
        return
    _forget(engine, [name for name in names if name not in left])
    if left:
        later(_discard, engine, left)


def _discard(engine: EndpointParts, names: list[str]) -> None:
    try:
        engine.wiring.discard(names)
    except SystemFailure as error:  # the next daemon's start tries again
        log.warning("the interfaces %s could not be removed: %s", " ".join(names), error)
        return
    _forget(engine, names)


def _forget(engine: EndpointParts, names: list[str]) -> None:
    for name in names:
        try:
            os.unlink(_place(engine, name))
        except FileNotFoundError:  # it could not be noted, or an administrator has removed the note
            continue
        except OSError as error:  # the next daemon's start then looks for the wire once more
            log.warning("cannot delete the note of interface %s: %s", name, error)


def _place(engine: EndpointParts, name: str = "") -> str:
    return os.path.join(paths.wires(engine.settings.exec_root), name)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
