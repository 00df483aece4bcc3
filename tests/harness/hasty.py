"""A daemon that gives up early: `python -m tests.harness.hasty daemon ...`, the engine with its long waits made short.

Run as a process of its own in the place of `python -m engine`, by tests of what happens when the waiting is over.
"""

import sys

SECONDS = 2.0


def main() -> int:
    """Be the engine, in haste."""
    from engine import __main__ as door
    from engine.daemon.containers.mounts import answering
    from engine.daemon.containers.verbs import prune
    from engine.daemon.runtime import handshake

    answering.SECONDS = handshake.START_SECONDS = SECONDS
    prune.PATIENCE_SECONDS = SECONDS / 20
    return door.main()


if __name__ == "__main__":
    sys.exit(main())
