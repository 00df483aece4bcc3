"""What a frontend asks the build for: a graph of operations, or what another frontend makes.

Runs on the threads of the frontends' calls.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

from engine.daemon.buildkit import failures, frontend, wishes
from engine.daemon.buildkit.contextfinding import Inputs
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import imagefrontend, references, solving
from engine.daemon.buildkit.llb.imagefrontend import Serve
from engine.daemon.buildkit.llb.references import Reference
from engine.daemon.buildkit.llb.returned import Answer
from engine.daemon.buildkit.messages import ops, policy
from engine.daemon.buildkit.outcome import Outcome
from engine.daemon.buildkit.syntaxes import OtherFrontend
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid, NotBuilt
from engine.late import TYPE_CHECKING, late
from engine.protocols import grpc

if TYPE_CHECKING:  # few commands fail
    from engine.daemon.buildkit.llb import failedsteps
else:
    failedsteps = late("engine.daemon.buildkit.llb.failedsteps")

_COMMAND_LINE = "cmdline"  # the option by which a frontend learns how a file has asked for it


def solve(
    engine: DaemonParts,
    job: Job,
    definition: ops.Definition | None,
    name: str,
    options: Mapping[str, str],
    inputs: Mapping[str, ops.Definition],
    serve: Serve,
    depth: int = 0,
    policies: Sequence[policy.Policy] = (),
) -> Answer:
    """What a definition is about, or what the frontend of that name makes. Raises EngineErrors.

    policies: for the definition, of the frontend that asks for it
    options, inputs: of the frontend; serve: serves a frontend of an image; depth: of those around it
    """
    if definition is not None and definition["ops"]:
        if name:
            raise Invalid("cannot solve with both Definition and Frontend specified")
        return Answer(solving.of(engine, job).reference(definition, policies))
    if not name:
        return Answer()
    if name == imagefrontend.NAME:
        return imagefrontend.solve(engine, job, options, inputs, serve, depth)
    if name != wishes.NAME:
        raise NotBuilt(f"the frontend {name} is not built in this engine")
    solver = solving.of(engine, job) if inputs else None
    trees: Inputs = {name: functools.partial(solver.node, each) for name, each in inputs.items() if solver is not None}
    try:
        with failures.plainly():
            outcome = frontend.solve(engine, job, options, trees)
        return _promised(job, outcome)
    except OtherFrontend as other:
        asked = {**options, imagefrontend.SOURCE: other.source, _COMMAND_LINE: other.words}
        return imagefrontend.solve(engine, job, asked, inputs, serve, depth)
    except grpc.Failed as error:
        step = failedsteps.step_of(error)
        if step is None:
            raise
        # Whoever needs the files is told, as BuildKit's clients expect.
        return Answer(_held(job, references.failed(error)), {}, step.metadata)


def _promised(job: Job, outcome: Outcome) -> Answer:
    """Promises of trees that are there already."""
    found = [_held(job, references.promised(tree)) for tree in outcome.trees]
    if outcome.several:
        names = [tree.platform_id for tree in outcome.trees]
        return Answer(None, dict(zip(names, found, strict=True)), outcome.metadata)
    return Answer(found[0] if found else None, {}, outcome.metadata)


def _held(job: Job, promised: tuple[Reference, Callable[[], None]]) -> Reference:
    """The reference, which ends with the build."""
    made, forget = promised
    job.held.callback(forget)
    return made
