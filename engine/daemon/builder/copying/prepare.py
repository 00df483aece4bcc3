"""The first step of a COPY or an ADD: finds and digests the sources. `packing` is the second one.

Runs in the build's thread. It reads every file once and looks into no base: the base's part in the outcome is in its
image's id. The second step is taken only where the cache has no image for this digest.
"""

import hashlib

from engine.daemon.builder.copying import digests, permissions, sources
from engine.daemon.builder.copying.fetching import Fetched
from engine.daemon.builder.copying.request import Request
from engine.daemon.builder.graph.node import digest
from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure
from engine.sandbox.mounts import words

# So many digests are held in memory; when there are more, they are combined into one on the way.
_FEW = 1000


@dataclass(frozen=True, slots=True)
class Prepared:
    """The sources of one COPY or ADD, found and digested.

    digest: sha256 in hex of all that decides the outcome, except for the base
    shown: `file:HASH`, `dir:HASH` or `multi:HASH`, as docker's history shows the sources
    """

    digest: str
    shown: str


def prepare(root: int, request: Request) -> Prepared:
    """Find and digest the sources beneath `root`. Raises Invalid, NotFound, SystemFailure in docker's words."""
    if request.chmod:
        permissions.parse(request.chmod)
    try:
        shown = _known(root, request)
    except OSError as error:
        raise SystemFailure(f"{request.shown} failed: {words(error)}") from error
    flags = (request.parents, request.link, request.unpack, request.unpack_fetched, request.keep_owners)
    total = hashlib.sha256()
    # The instruction's flags and paths decide the outcome as much as the files do.
    for part in (
        shown,
        request.shown,
        request.destination,
        request.workdir,
        request.chown,
        request.chmod,
        *map(str, flags),
    ):
        data = part.encode("utf-8", "surrogateescape")
        total.update(b"%d:%b," % (len(data), data))
    return Prepared(total.hexdigest(), shown)


def _known(root: int, request: Request) -> str:
    """How the sources are shown: as it is remembered, where nothing in the root has changed since."""
    remembered = request.remembered
    if remembered is None or any(isinstance(each, Fetched) for each in request.sources):
        return _shown(root, request)
    sources = digest("sources", request.shown, request.decides())
    known = remembered.tree(sources)
    if known is None:
        known = _shown(root, request)
        remembered.learn_tree(sources, known)
    return known


def _shown(root: int, request: Request) -> str:
    digester = digests.Digester(request)
    found: list[str] = []
    count = 0
    for source in sources.find(root, request):
        count += 1
        found.append(digester.source(source))
        if len(found) > _FEW:
            found = [digests.combined(found)]
    for name, data in request.inline:
        count += 1
        found.append(digester.inline(name, data))
    if not count:
        raise Invalid(f"{request.shown} failed: no source files were specified")
    if count > 1 and not request.destination.endswith("/") and not request.parents:
        raise Invalid(
            f"When using {request.shown} with more than one source file, "
            "the destination must be a directory and end with a /"
        )
    return found[0] if count == 1 else digests.combined(found)
