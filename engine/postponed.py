"""Postpones the import of standard modules that the daemon's own modules import but hardly ever use, to save memory.

Run first of all by the process that is to be a daemon or a spawner; the processes that it forks inherit the effect.
`logging` imports `traceback` for unforeseen errors; with its own imports it takes memory that an idle daemon does not
touch. Only a module that is used as `module.name` can be postponed, and a module that is loaded already is left alone.
Any thread may be the first to use one, and several at once: `importlib.util.LazyLoader` does the same, but before
Python 3.12 two such threads break it.
"""

import _thread
import importlib
import sys
import types

IDLE = ("traceback", "json", "base64", "heapq", "queue", "selectors", "sqlite3")

_INSTEAD = {"sqlite3": "_sqlite3"}
"""What is loaded in the place of a module, and is what it gives its users. `sqlite3` itself adds conversions of dates,
which the engine does not use, and loads `datetime` for them: a tenth of the time that a start takes for its modules.
"""


def postpone(*names: str) -> None:
    """Make `import name` cost nothing until code reads an attribute of the module."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = _waiting(name)


def _waiting(name: str) -> types.ModuleType:
    stand_in = types.ModuleType(name)
    # One lock for each name: a thread that loads one module may meet another postponed one. It is reentrant, because a
    # thread may meet the stand-in that it is loading.
    turn = _thread.RLock()

    def load(attribute: str) -> object:
        with turn:
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            real = importlib.import_module(_INSTEAD.get(name, name))
            sys.modules[name] = real
            # Modules that have imported the stand-in keep it: from now on it has all that the module has.
            vars(stand_in).update(vars(real))
        return getattr(real, attribute)

    vars(stand_in)["__getattr__"] = load  # PEP 562
    return stand_in
