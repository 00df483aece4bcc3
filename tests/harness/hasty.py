"""A daemon that gives up early: `python -m tests.harness.hasty daemon ...`, the engine with its long waits made short.

Run as a process of its own in the place of `python -m engine`, by tests of what happens when the waiting is over. Only
what is named in the file that `NAMED` leads to is given up: on a slow machine a start that is well may take as long.
"""

import os
import sys
from collections.abc import Callable

SECONDS = 2.0
NAMED = "ENGINE_TEST_HASTY"
"""The variable that names the file; in it are ids of containers and paths."""


def _named(name: str) -> bool:
    try:
        with open(os.environ[NAMED]) as file:
            return name in file.read()
    except FileNotFoundError:
        return False


def main() -> int:
    """Be the engine, in haste."""
    from engine import __main__ as door
    from engine.daemon.containers.mounts import answering
    from engine.daemon.containers.verbs import prune
    from engine.daemon.runtime import handshake

    heard, asked, patience = handshake._next, answering.asked, answering.SECONDS

    def hasty(link: object, name: str, seconds: float) -> object:
        return heard(link, name, SECONDS if _named(name) else seconds)

    def hastily(path: str, question: Callable[[], object]) -> object:
        answering.SECONDS = SECONDS if _named(path) else patience
        return asked(path, question)

    handshake._next, answering.asked = hasty, hastily
    prune.PATIENCE_SECONDS = SECONDS / 20
    return door.main()


if __name__ == "__main__":
    sys.exit(main())
