"""Which form of the chaos tests runs, and the seed of all that is random in it.

`ENGINE_CHAOS=full` is the full form. `ENGINE_CHAOS_SEED=N` runs the choices of an earlier run again: what the clients
do is the same then, what the kernel makes of it need not be.
"""

import os
import random

FULL = os.environ.get("ENGINE_CHAOS") == "full"
# CI judges a change by itself: there the choices are the same each time, elsewhere each run makes its own.
SEED = int(os.environ.get("ENGINE_CHAOS_SEED") or (1 if "CI" in os.environ else random.SystemRandom().getrandbits(31)))


def short_or_full(short: float, full: float) -> float:
    """One of two numbers (rounds, seconds, clients), as the form says."""
    return full if FULL else short


def source(name: object = "") -> random.Random:
    """Random numbers for one part of a test: the same seed and name give the same ones."""
    return random.Random(f"{SEED} {name}")
