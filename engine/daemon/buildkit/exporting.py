"""What becomes of a build's result: the exporters that a client names, and what it is told of each.

Runs on the thread of Control/Solve. The table has one row for each kind of exporter; the options are checked before
anything is built.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from engine.daemon.buildkit import caching, sessions
from engine.daemon.buildkit.attesting import Attesting
from engine.daemon.buildkit.caches.targets import Target, inline
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.composing import Result
from engine.daemon.buildkit.exporters.directory import LocalExporter, TarExporter
from engine.daemon.buildkit.exporters.kind import NAME, Kind, Work, names_of
from engine.daemon.buildkit.exporters.layouts import LayoutExporter
from engine.daemon.buildkit.exporters.moby import ImageExporter
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import returned
from engine.daemon.buildkit.messages.control import Exporter, SolveRequest
from engine.daemon.buildkit.outcome import Outcome
from engine.daemon.images.reference import Reference
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError, Invalid, NotBuilt
from engine.literals import integer

_TOLD = "frontend."  # begins the names of what a frontend says for its client
_EPOCH, _EPOCH_ARGUMENT = "source.date.epoch", "build-arg:SOURCE_DATE_EPOCH"

KINDS: dict[str, Callable[[int, Attrs], Kind]] = {
    "image": ImageExporter,
    "moby": lambda number, attrs: ImageExporter(number, attrs, moby=True),
    "oci": lambda number, attrs: LayoutExporter(number, attrs, docker=False),
    "docker": lambda number, attrs: LayoutExporter(number, attrs, docker=True),
    "local": LocalExporter,
    "tar": TarExporter,
}


def asked_of(asked: SolveRequest) -> list[Exporter]:
    """The exporters of a request, as the client names them, in order."""
    if not asked["Exporters"] and asked["ExporterDeprecated"]:  # clients before BuildKit 0.13 know one alone
        return [{"Type": asked["ExporterDeprecated"], "Attrs": asked["ExporterAttrsDeprecated"]}]
    return asked["Exporters"]


def kinds_of(exporters: list[Exporter]) -> list[Kind]:
    """What does these. Raises NotBuilt for one that this engine does not have, Invalid."""
    kinds = []
    for number, each in enumerate(exporters):
        if each["Type"] not in KINDS:
            raise NotBuilt(f"the exporter {each['Type']} (--output) is not built in this engine")
        attrs = Attrs(f"the exporter {each['Type']}", each["Attrs"])
        kinds.append(KINDS[each["Type"]](number, attrs))
        attrs.end()
    return kinds


def export(
    engine: DaemonParts,
    job: Job,
    outcome: Outcome,
    kinds: list[Kind],
    attesting: Attesting,
    targets: list[Target],
) -> dict[str, str]:
    """Export the result to all of them, one after another; what the client is told. Raises EngineErrors.

    attesting: attests it; targets: caches that get what the build has made
    """
    told: dict[str, str] = {}
    said = attesting.attested(outcome)
    for kind in kinds:
        vertex = job.progress.vertex(kind.title)
        vertex.begin()
        try:
            with ExitStack() as held:
                epoch = kind.epoch if kind.epoch is not None else _epoch(job, outcome)
                inside = inline if caching.goes_inside(targets) else None
                wanted = returned.described(outcome, kind.documents)
                result = Result(wanted, _names(kind, outcome), said, epoch, inside)
                told |= kind.export(
                    Work(engine, job, lambda: sessions.find(job.asked["Session"]), result, vertex, held)
                )
        except EngineError as error:
            vertex.end(str(error))
            raise
        vertex.end()
    more = {name: value for name, value in outcome.metadata.items() if name.startswith(_TOLD)}
    told |= {name: value.decode("utf-8", "replace") for name, value in more.items()}
    return told | caching.export(engine, job, outcome, targets)


def _names(kind: Kind, outcome: Outcome) -> Sequence[Reference]:
    """The names of the image. Raises Invalid where the frontend is to name it and does not."""
    if kind.names is not None:
        return kind.names
    if NAME not in outcome.metadata:
        raise Invalid("the frontend does not name the image (name=*)")
    return names_of(outcome.metadata[NAME].decode("utf-8", "replace"))


def _epoch(job: Job, outcome: Outcome) -> int | None:
    """SOURCE_DATE_EPOCH, as the frontend or the client says it. Raises Invalid."""
    said = outcome.metadata.get(_EPOCH, b"").decode("ascii", "replace")
    said = said or job.asked["FrontendAttrs"].get(_EPOCH_ARGUMENT, "")
    if not said:
        return None
    try:
        return integer(said, low=0, high=1 << 40, reader="strconv.ParseInt")
    except Invalid as error:
        raise Invalid(f"invalid SOURCE_DATE_EPOCH: {error}") from error
