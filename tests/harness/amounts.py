"""How much a run makes of what can be tried more or less often: all of it in CI, a part by hand.

Read by the tests when they are imported. `ENGINE_TEST_AMOUNT=full` has all of it made by hand too.
"""

import os
from typing import TypeVar

Amount = TypeVar("Amount", int, float)

FULL = os.environ.get("CI", "").lower() in ("1", "true") or os.environ.get("ENGINE_TEST_AMOUNT") == "full"


def amount(full: Amount, by_hand: Amount) -> Amount:
    """One of the two, by who runs the tests."""
    return full if FULL else by_hand


def examples(variable: str, full: int, by_hand: int) -> int:
    """How many examples there are, or how far from each other: what the variable says, or else one of the two."""
    return int(os.environ.get(variable) or amount(full, by_hand))
