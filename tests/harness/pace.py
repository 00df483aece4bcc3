"""How long the harness waits for what is to happen: longer on a machine that is said to be slow.

ENGINE_TEST_SLOWER=8 in the environment makes each wait eight times as long, as for a guest whose processors are
emulated (`python3 -m tests --long guest`). A wait for what is not to happen stays as it is.
"""

import os

SLOWER = float(os.environ.get("ENGINE_TEST_SLOWER", "1"))


def patient(seconds: float) -> float:
    """So many seconds of a usual machine."""
    return seconds * SLOWER
