"""What differs from buildkitd on purpose, each with its reason: few rows, and none that no build needs."""

import re
from typing import NamedTuple

from tests.comparison.builds.case import EPOCH
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


DIFFERENCES: tuple[Meant, ...] = (
    Meant(
        *("status|error", "", r".*it needs an emulator that is registered with binfmt_misc.*"),
        "a command of a foreign platform needs an emulator, also where its program happens to be of the host's",
    ),
    Meant(
        *("error", "", r"(.*failed to calculate checksum)( of ref \S+)(.*)\n   ours: \1\3"),
        "an identity of BuildKit's own says nothing to whoever reads it",
    ),
    Meant(
        *("error", "", r".*dial tcp: lookup .*ours: .*dial tcp: lookup .*"),
        "the C library's resolver does not name the server that it asked",
    ),
    Meant(
        *("value", "entry.time", rf"('now'|{EPOCH}), ours 1[45]\d{{8}} of {{'name': '[^']*/', 'kind': '5'.*"),
        "BuildKit gives a directory of a context another time, where the context before had other files in it",
    ),
    Meant(
        *("value", r"manifest.layers(\[\].mediaType)?", r".*\bzstd\b.*ours .*\bgzip\b.*"),
        "without a wish for a compression BuildKit gives a layer in one that it has, whatever build had wished for it",
    ),
)
