"""Modules of the engine that a process imports when it first uses something of them, and not before.

An idle daemon holds in memory what its clients have asked for, and nothing more: networks, filters and a registry's
client are loaded by the first request that needs them. A module names what it loads late at its top, below its other
imports:

    if TYPE_CHECKING:  # loaded with the first network
        from engine.daemon.network import devices
    else:
        devices = late("engine.daemon.network.devices")

A type checker and the tests of `tests/floors` read the first branch; Python runs the second. Any thread may be the
first to use such a module: the others wait at Python's own lock for that import.
"""

from importlib import import_module

TYPE_CHECKING = False
"""A type checker takes this name for true. `typing` has the same one, and a spawner does without that module."""


class Late:
    """Stands for one module where it is used as `module.name`."""

    __slots__ = ("_module", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._module: object = None

    def __getattr__(self, name: str) -> object:
        if self._module is None:
            self._module = import_module(self._path)
        return getattr(self._module, name)


def late(path: str) -> Late:
    """The stand-in for the module of this full name; its first use raises what the import raises."""
    return Late(path)
