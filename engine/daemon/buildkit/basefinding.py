"""Finds the base images of a build, those that have to be pulled side by side, and tells a vertex of each.

Belongs to one build. An image is looked up once; who asks for it meanwhile waits for that.
"""

import threading
from collections.abc import Mapping

from engine.daemon.builder import bases
from engine.daemon.builder.converting import Base
from engine.daemon.builder.dialect import BUILDKIT
from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.node import Node
from engine.daemon.builder.graph.work import Caller
from engine.daemon.builder.options import Options
from engine.daemon.builder.pulled import Pulled
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.progress import Progress
from engine.daemon.buildkit.provenance.captured import Captured, UsedImage
from engine.daemon.buildkit.told import Told
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime import worker
from engine.errors import Forbidden, Invalid, NotFound, SystemFailure, Unauthorized, Unavailable

_LOOK_SECONDS = 0.2
# What a registry's failures are.
_REGISTRYS = (Forbidden, NotFound, SystemFailure, Unauthorized, Unavailable)


class _Finding:
    """One image that is looked up."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.base: Base | None = None
        self.error: BaseException | None = None


class Bases:
    """The images of one build; a context manager that waits for those that are still looked up, and ends their pulls
    where it is left by an error.
    """

    def __init__(
        self,
        engine: ContainerParts,
        keeper: Keeper,
        options: Options,
        progress: Progress,
        caller: Caller,
        captured: Captured,
    ) -> None:
        self._engine, self._keeper, self._options = engine, keeper, options
        self._progress, self._caller, self._captured = progress, caller, captured
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _Finding] = {}
        self._fresh: bases.Fresh = {}
        self._failed = False

    def __enter__(self) -> "Bases":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._failed = kind is not None
        for finding in list(self._known.values()):
            finding.over.wait()

    def begin(self, names: Mapping[str, str]) -> None:
        """Begin to look up several images at once. names: each with its platform as written, or empty"""
        for name, platform in names.items():
            if not self._is_here(name, platform):
                finding, ours = self._claim(name, platform)
                if ours:
                    worker.begin("base", lambda found=finding, asked=(name, platform): self._find(found, *asked))  # type: ignore[misc]

    def find(self, name: str, platform: str) -> Base:
        """The image of that name for a platform as written, or empty. Raises EngineErrors, and what a caller raises.

        A failure of a registry names the image as the Dockerfile has it.
        """
        finding, ours = self._claim(name, platform)
        if ours:
            self._find(finding, name, platform)
        while not finding.over.wait(_LOOK_SECONDS):
            self._caller.check()
        if isinstance(finding.error, _REGISTRYS):
            words = f"{name}: failed to resolve source metadata for {_shown(name)}: {finding.error}"
            raise type(finding.error)(words) from finding.error
        if finding.error is not None:
            raise finding.error
        assert finding.base is not None  # it is over, and without an error
        return finding.base

    def _claim(self, name: str, platform: str) -> tuple[_Finding, bool]:
        with self._lock:
            known = self._known.get((name, platform))
            if known is not None:
                return known, False
            made = self._known[name, platform] = _Finding()
            return made, True

    def _is_here(self, name: str, platform: str) -> bool:
        try:
            return not self._options.pull and bool(self._engine.images.find(name, platform or None))
        except (NotFound, Invalid):
            return False

    def _find(self, finding: _Finding, name: str, platform: str) -> None:
        try:
            finding.base = self._told(name, platform)
        except BaseException as error:  # raised again for whoever asks
            finding.error = error
        finally:
            finding.over.set()

    def _told(self, name: str, platform: str) -> Base:
        vertex = self._progress.vertex(f"[internal] load metadata for {_shown(name)}")
        vertex.begin()
        try:
            told = Told(vertex)
            image = bases.find(
                self._engine, name, platform, self._options, told.line, self._fresh, self._gone, BUILDKIT
            )
            self._keeper.hold(image)
        except BaseException as error:
            vertex.end(words_of(error))
            raise
        vertex.end()
        self._capture(name, image)
        return Base(Node(Pulled(image, f"{_shown(name)}@{image.id}")).output(), image.config)

    def _gone(self) -> bool:
        """Whether nobody needs the images any more."""
        return self._failed or self._caller.gone()

    def _capture(self, name: str, image: Image) -> None:
        try:
            reference = Reference.parse(name).with_default_tag()
        except Invalid:  # an id names no image of a registry
            return
        self._captured.image(UsedImage(reference, platforms.of(image.config), image.id))


def _shown(name: str) -> str:
    """The whole name of an image, as BuildKit shows it."""
    try:
        return Reference.parse(name).with_default_tag().canonical
    except Invalid:  # an id
        return name
