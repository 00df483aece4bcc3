"""A daemon whose spawner, once settled, finds no module in any file: `python -m tests.harness.stranded daemon ...`.

Run as a process of its own in the place of `python -m engine`. It is what an upgrade does to the processes that outlive
it: their tree is gone. The engine knows nothing of it; what the spawner, or anybody whom it forks, asks of a file
nevertheless is written down in the file that `ASKED` names, and refused.
"""

import gc
import importlib.machinery
import os
import sys

ASKED = "ENGINE_TEST_ASKED"
"""The variable that names the file: a line for each module that was looked for, and each file of the tree."""

_TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _note(what: str) -> None:
    descriptor = os.open(os.environ[ASKED], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.write(descriptor, f"{what}\n".encode())
    os.close(descriptor)


class _Gone:
    """In the place of the finder that looks for modules in files."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """There is none."""
        _note(f"module {name}")


def strand() -> None:
    """From now on, in this process and in those that it forks, there are no files."""
    sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = _Gone

    def heard(event: str, arguments: tuple) -> None:
        path = arguments[0] if event == "open" else None
        if isinstance(path, str) and path.startswith(f"{_TREE}/") and path.endswith((".py", ".pyc")):
            _note(f"file {path}")

    sys.addaudithook(heard)


class _Collector:
    """In the place of the spawner's `gc`, as far as it uses that."""

    collect = staticmethod(gc.collect)
    freeze = staticmethod(gc.freeze)
    enable = staticmethod(gc.enable)

    @staticmethod
    def disable() -> None:
        """The last that a spawner does before it waits for requests."""
        gc.disable()
        strand()


def main() -> int:
    """Be the engine's daemon, with such a spawner."""
    from engine import __main__ as door
    from engine.spawner import main as spawner

    spawner.gc = _Collector
    return door.daemon(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
