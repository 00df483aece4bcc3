"""Runs one probe in a forked child, and brings back what it found, whatever happens to that child.

Runs in the process of `engine check`, which has one thread. What the child changes (namespaces, filters, limits) ends
with the child. A child that does not answer within `SECONDS` is killed. An exception of a probe becomes a row in words:
an OSError says that the host refused something, and any other exception is a fault of the probe's.
"""

import json
import os
import select
import signal
from collections.abc import Callable

from engine.check.row import MISSING, UNKNOWN, Found
from engine.errors import EngineError

SECONDS = 60.0
_LARGEST = 64 * 1024


def run(probe: Callable[[], Found]) -> Found:
    """What the probe finds in a child of its own. Raises nothing but what fork(2) and pipe(2) raise."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = _found(probe)
            os.write(writer, json.dumps([found.state, found.text[:1000]]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], SECONDS)
        said = os.read(reader, _LARGEST) if ready else b""
        if not ready:
            os.kill(child, signal.SIGKILL)
            return Found(UNKNOWN, f"the probe gave no answer within {SECONDS:.0f} s")
        return Found(*json.loads(said)) if said else Found(UNKNOWN, "the probe ended without an answer")
    finally:
        os.close(reader)
        os.waitpid(child, 0)


def _found(probe: Callable[[], Found]) -> Found:
    try:
        return probe()
    except (OSError, EngineError) as error:
        return Found(MISSING, str(error) or type(error).__name__)
    except Exception as error:
        return Found(UNKNOWN, f"the probe failed: {type(error).__name__}: {error}")
