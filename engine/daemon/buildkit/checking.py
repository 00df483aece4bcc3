"""The checks of the Dockerfile of one build: its warnings, and the answer to a question that stands for a build.

Belongs to the build's thread. Base images are looked at, in the store or at their registries, and not pulled.
"""

import contextlib
import posixpath

from engine.daemon.builder import namedcontexts, sourcechecks
from engine.daemon.builder.options import Options
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.lint import lintrules
from engine.daemon.buildkit.lint.lintrules import Warned
from engine.daemon.buildkit.lint.review import SCRATCH, Around, Review
from engine.daemon.buildkit.lint.walk import review
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.messages.control import VertexWarning
from engine.daemon.buildkit.subrequests import lintreport, questions
from engine.daemon.buildkit.subrequests.source import Answer, Source
from engine.daemon.buildkit.wishes import Asked
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.images import platform as platforms
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.reference import Reference
from engine.daemon.images.verbs import resolution
from engine.daemon.jsontext import Object
from engine.errors import EngineError, Invalid, NotFound

_LEVEL = 1  # of a warning; clients show it once the build has ended


class Checked:
    """A Dockerfile with what it is checked by.

    source: its name and bytes; ignored: the text of the .dockerignore; options: of the build
    """

    def __init__(
        self,
        store: Catalogue,
        job: Job,
        asked: Asked,
        source: Source,
        ignored: str,
        options: Options,
    ) -> None:
        self._store, self._job, self._asked, self._source = store, job, asked, source
        self._credentials, self._checks = options.credentials, options.checks
        self._ignored = ignored
        self._known: dict[tuple[str, str], Object] = {}
        self._shows = True

    def answer(self) -> Answer:
        """The answer to the client's question. Raises Misplaced, Invalid, NotBuilt for an unknown one."""
        return questions.answered(self._asked.request, self._source, self._review, self._asked.target)

    def warn(self) -> None:
        """Tell the warnings of a build. Raises Invalid where they are errors.

        A fault of the file is not told here: the build itself comes upon it.
        """
        self._shows = False  # the build itself tells of its base images
        seen = self._review(False)
        options = lintreport.options(seen)
        warned = lintrules.warnings(seen, options)
        vertex = f"[internal] load build definition from {posixpath.basename(self._source.name)}"
        for one in warned:
            self._job.progress.warn(vertex, self._told(one))
        if seen.fault is None and (violation := lintreport.violation(warned, options)):
            raise Invalid(violation)

    def _told(self, one: Warned) -> VertexWarning:
        lines: list[ops.Range] = [
            {"start": {"line": number}, "end": {"line": number}} for number in range(one.first, one.last + 1)
        ]
        return {
            "level": _LEVEL,
            "short": one.short.encode("utf-8", "replace"),
            "detail": [one.rule.description.encode()],
            "url": one.rule.url,
            "info": {"filename": self._source.name, "data": self._source.data, "language": "Dockerfile"},
            "ranges": lines,
        }

    def _review(self, every: bool) -> Review:
        asked = self._asked
        ignore: Ignore | None = None
        with contextlib.suppress(Invalid):  # a pattern that is none is told by the build
            ignore = Ignore(self._ignored)
        platform = asked.platform.partition(",")[0]  # what is wrong for one platform is told once
        around = Around(self._image, asked.args, platform, asked.target, every, ignore, tuple(asked.contexts))
        return review(self._source.data, around)

    def _image(self, name: str, platform: str) -> Object:
        """The document of a base image, which is asked for once. Raises EngineErrors."""
        key = name, platform
        if key not in self._known:
            wanted = platforms.wanted(platform)
            named = namedcontexts.find(self._asked.contexts, name, str(wanted))
            if named is None or named.kind == namedcontexts.IMAGE:
                self._known[key] = self._looked_up(named.place if named else name, platform)
            else:
                self._known[key] = self._asked.input_configs.get(named.place, {})
        return self._known[key]

    def _looked_up(self, name: str, platform: str) -> Object:
        if name == SCRATCH:
            return {}
        source = sourcechecks.of_image(name)
        judged = self._checks.judged(source, platform)
        if judged.kind != sourcechecks.IMAGE:  # which has no document that is checked
            return {}
        name = name if judged == source else judged.name
        if not self._asked.pull:
            with contextlib.suppress(NotFound):  # then its registry has it, or nobody
                return self._store.find(name, platform or None).config
        reference = Reference.parse(name).with_default_tag()
        credentials = self._credentials(reference.domain)
        if not self._shows:
            return resolution.resolve(self._store, name, platform, credentials).config
        vertex = self._job.progress.vertex(f"[internal] load metadata for {reference.canonical}")
        vertex.begin()
        try:
            found = resolution.resolve(self._store, name, platform, credentials)
        except EngineError as error:
            vertex.end(str(error))
            raise
        vertex.end()
        return found.config
