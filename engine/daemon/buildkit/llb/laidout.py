"""The source `oci-layout` of a graph: an image in a content store that the client serves.

An operation of the build graph. The client is asked in each build; the digest says what the image is.
"""

from collections.abc import Mapping, Sequence

from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.buildkit import layoutsource, sessions
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.images.platform import Platform
from engine.dataclass import dataclass
from engine.errors import Invalid, NotBuilt, NotFound
from engine.literals import natural

_SCHEME = "oci-layout://"
_SESSION, _STORE, _LIMIT = "oci.session", "oci.store", "oci.layerlimit"
_STORES = "oci:"  # which clients put before the names of these stores


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The operation. session: id of the one that has the store; image: digest; limit: layers, from the lowest on"""

    session: str
    store: str
    image: str
    platform: Platform
    limit: int | None = None

    kind = "regular"

    @property
    def title(self) -> str:
        """What BuildKit calls it."""
        return f"{_SCHEME}{self.store.removeprefix(_STORES)}@{self.image}"

    def key(self) -> str:
        """What it is by definition."""
        return digest("oci-layout source", self.session, self.store, self.image, str(self.platform), self.limit)

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """None: the layers are kept by who uses them."""
        return None

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The image's tree. Raises NotFound, Invalid, Unavailable, SystemFailure."""
        with work.waiting():
            store = ClientStore(sessions.find(self.session), self.store, work.check)
            source = layoutsource.read(store, self.image, self.platform)
        (whole,) = source.make(work, inputs)
        return (whole if self.limit is None else Snapshot(whole.parts[: self.limit]),)


def read(identifier: str, attrs: Mapping[str, str], session: str, platform: Platform) -> LaidOut:
    """The operation of a source. session: that of the build, empty for none. Raises Invalid, NotBuilt, NotFound."""
    limit: int | None = None
    for key, value in attrs.items():
        if key == _LIMIT:
            limit = natural(value, 1 << 16)
            if not limit:
                raise Invalid(f"invalid layer limit {value}")
        elif key not in (_SESSION, _STORE):
            raise NotBuilt(f"the attribute {key} of an OCI layout is not built in this engine")
    name, image = layoutsource.name_of(identifier.removeprefix(_SCHEME))
    session = attrs.get(_SESSION) or session
    if not session:
        raise NotFound(f"no active session has the store {identifier}")
    return LaidOut(session, f"{_STORES}{attrs[_STORE]}" if attrs.get(_STORE) else name, image, platform, limit)
