"""The source `docker-image`: the tree of an image, of the local store or of a registry.

An operation of the build graph. The image itself is what is kept, by the store; there is no record of it in the cache.
"""

from collections.abc import Callable, Sequence

from engine.daemon.builder import bases, pulled
from engine.daemon.builder.dialect import BUILDKIT
from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.builder.options import Options
from engine.daemon.buildkit.provenance.captured import UsedImage
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field
from engine.errors import EngineError, Invalid
from engine.literals import natural

_SCHEME = "docker-image://"
_LIMIT, _MODE, _CHECKSUM, _RECORD = "image.layerlimit", "image.resolvemode", "image.checksum", "image.recordtype"
_MODES = ("", "default", "pull", "local")


@dataclass(frozen=True, slots=True)
class ImageSource:
    """The operation. name: of the image; platform: `os/architecture[/variant]`; pull: ask the registry anyway

    limit: how many layers are taken, from the lowest on; checksum: of the index or manifest, empty for any
    credentials: gives those for a registry; used: is told of the image that was found
    """

    name: str
    platform: str
    pull: bool = False
    limit: int | None = None
    checksum: str = ""
    credentials: Callable[[str], Object | None] = field(default=lambda _domain: None, compare=False)
    used: Callable[[UsedImage], None] = field(default=lambda _used: None, compare=False)

    kind = "regular"

    @property
    def title(self) -> str:
        """What BuildKit calls it."""
        return _SCHEME + self.name

    def key(self) -> str:
        """What it is by definition."""
        return digest("docker-image", self.name, self.platform, self.pull, self.limit, self.checksum)

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """None: the store keeps images."""
        return None

    def make(self, work: Work, _inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The image's tree, pulled where it is missing. Raises what `find` raises."""
        with work.waiting():
            image = self.find(work)
        self.used(UsedImage(Reference.parse(self.name).with_default_tag(), platforms.of(image.config), image.id))
        whole = pulled.tree(work, image, self.name)
        return (whole if self.limit is None else Snapshot(whole.parts[: self.limit]),)

    def find(self, work: Work) -> Image:
        """The image. Raises NotFound, Invalid, and what a pull raises."""

        def gone() -> bool:
            try:
                work.check()
            except EngineError:
                return True
            return False

        options = Options(pull=self.pull, credentials=self.credentials)
        image = bases.find(work.engine, self.name, self.platform, options, work.told.line, {}, gone, BUILDKIT)
        if self.checksum and self.checksum not in (image.id, image.manifest):
            raise Invalid(f"image digest {image.id} for {self.name} does not match expected checksum {self.checksum}")
        return image


def read(
    identifier: str,
    attrs: dict[str, str],
    platform: str,
    credentials: Callable[[str], Object | None],
    used: Callable[[UsedImage], None],
) -> ImageSource:
    """The operation of a source. Raises Invalid."""
    name = identifier.removeprefix(_SCHEME)
    Reference.parse(name)
    limit: int | None = None
    for key, value in attrs.items():
        if key == _LIMIT:
            limit = natural(value, 1 << 16)
            if not limit:
                raise Invalid(f"invalid layer limit {value}")
        elif key == _MODE and value not in _MODES:
            raise Invalid(f"invalid image resolve mode: {value}")
        elif key not in (_MODE, _CHECKSUM, _RECORD):
            raise Invalid(f"unknown attribute {key} of an image")
    return ImageSource(name, platform, attrs.get(_MODE) == "pull", limit, attrs.get(_CHECKSUM, ""), credentials, used)
