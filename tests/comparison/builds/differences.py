"""What differs from buildkitd on purpose, each with its reason: few rows, and none that no build needs."""

import re
from typing import NamedTuple

from tests.replay.compare import Departure

MOST = 15
ANY = ".*"


class Meant(NamedTuple):
    """One meant difference; what, where, how: patterns for a whole `Departure`."""

    what: str
    where: str
    how: str
    reason: str

    def covers(self, found: Departure) -> bool:
        """Whether this row means a departure."""
        pairs = ((self.what, found.what), (self.where, found.where), (self.how, found.how))
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in pairs)


DIFFERENCES: tuple[Meant, ...] = ()
