"""One frontend as its build sees it, the client's own or that of an image: what it may name, who takes its result."""

from collections.abc import Callable, Mapping

from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb.references import References
from engine.daemon.buildkit.llb.rooms import Rooms
from engine.daemon.buildkit.messages import gateway, ops
from engine.dataclass import dataclass
from engine.errors import EngineError


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """One frontend. job: the build; inputs: what it was given; answer: takes its result, or why it has none

    references: what it was promised; rooms: its containers; depth: how many frontends of images it lies in, itself
    counted
    """

    job: Job
    inputs: Mapping[str, ops.Definition]
    answer: Callable[[gateway.Result | None, EngineError | None], None]
    references: References
    rooms: Rooms
    depth: int = 0


def own(job: Job) -> Asker:
    """The client's own frontend."""
    return Asker(job, job.asked["FrontendInputs"], job.answer, job.references, job.rooms)
