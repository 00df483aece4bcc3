"""Modules of the standard library that a daemon's own modules import and hardly ever use: they wait until asked.

Run once, first of all, by the process that is to be a daemon or a spawner, and inherited by what they fork.
`dataclasses` imports `inspect` for classes without a docstring, of which there are none, and `logging` imports
`traceback` for errors that nobody has foreseen; with what those two import, that is 1.2 MB that an idle daemon does not
touch, where the Python is 3.11: later ones ask `inspect` for every dataclass. Only what is used as `module.name` can
wait; it must never stand in the way of a module that is loaded already. Any thread may be the first to ask, and several
at once: `importlib.util.LazyLoader` does the same, but before Python 3.12 two such threads break it.
"""

import _thread
import importlib
import sys
import types

IDLE = ("inspect", "traceback")


def postpone(*names: str) -> None:
    """Have `import name` cost nothing until the module is asked for an attribute."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = _waiting(name)


def _waiting(name: str) -> types.ModuleType:
    stand_in = types.ModuleType(name)
    # A lock for each name: who loads one module may meet another that waits. A thread may meet its own stand-in again.
    turn = _thread.RLock()

    def load(attribute: str) -> object:
        with turn:
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            real = importlib.import_module(name)
            # Who has imported the stand-in keeps it: from now on it has all that the module has.
            vars(stand_in).update(vars(real))
        return getattr(real, attribute)

    vars(stand_in)["__getattr__"] = load  # PEP 562
    return stand_in
