"""A build from its context to its image, and POST /build with the names of the image and the lines of the answer.

Runs on the request's thread, from the first byte of the upload to the last name of the image. An error before the first
line of the answer is a plain HTTP error, as with dockerd. A later error is the answer's last line.
"""

import contextlib
from collections.abc import Callable

from engine.daemon import measured
from engine.daemon.builder import bases, building, stages
from engine.daemon.builder.cache import Cache
from engine.daemon.builder.context import Context, Fetching, Source, opened
from engine.daemon.builder.converting import Base
from engine.daemon.builder.graph import solver as solving
from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.node import Node
from engine.daemon.builder.graph.results import Results
from engine.daemon.builder.graph.solver import Solver
from engine.daemon.builder.graph.telling import Telling
from engine.daemon.builder.graph.work import Caller
from engine.daemon.builder.localtree import Local
from engine.daemon.builder.options import Options
from engine.daemon.builder.output import Lines, short
from engine.daemon.builder.pulled import Pulled
from engine.daemon.builder.stages import NoTarget
from engine.daemon.builder.state import Maker
from engine.daemon.dockerfile.instructions import UnknownInstruction
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.errors import EngineError
from engine.redact import redacted

_REASONS: dict[type[Exception], str] = {
    UnknownInstruction: "unknown_instruction_error",
    NoTarget: "build_target_not_reachable_error",
    building.NothingMade: "dockerfile_empty_error",
}
"""The failures of builds that dockerd counts, besides those whose client has gone, and by which reason."""


def build(
    engine: ContainerParts, options: Options, body: Source, progress: Callable[[Object], None], caller: Caller
) -> Image:
    """Build the image, give it the names that the client asks for, and report both to the client.

    progress: takes the answer's lines
    """
    measured.count("builds_triggered")
    output = Lines(progress, options.quiet, options.shows_ids)
    how = Fetching(output.downloading(redacted(options.remote), "Downloading context"), caller.check)
    try:
        with opened(engine.settings.data_root, body, options.remote, options.dockerfile, how) as context:
            try:
                return _made(engine, options, context, output, caller)
            except EngineError:
                output.failed()
                raise
    except Exception as error:
        _count_failure(error, caller)
        raise


def _count_failure(error: Exception, caller: Caller) -> None:
    cause = error.__cause__ if isinstance(error.__cause__, UnknownInstruction) else error
    reason = "build_canceled" if caller.gone() else _REASONS.get(type(cause))
    if reason:
        measured.count("builds_failed", reason)


def _made(engine: ContainerParts, options: Options, context: Context, output: Lines, caller: Caller) -> Image:
    """Build the image, and name it before a pruning may remove it. Raises EngineErrors, and what `caller` raises."""
    dockerfile, plan, arguments = stages.prepare(context.dockerfile, context.name, options)
    local, platform = Local(context.root, f"context {context.root}"), platforms.wanted(options.platform)
    fresh: bases.Fresh = {}
    with contextlib.ExitStack() as stack:
        cache = Cache(engine, options.no_cache, options.cache_from)
        stack.callback(cache.close)
        keeper = stack.enter_context(Keeper(engine.images))
        maker = stack.enter_context(Maker(engine, keeper))
        results = Results(engine.database, keeper, held=False)
        stack.callback(results.close)
        shared = engine, keeper, results, context.scratch, caller
        solver = Solver(solving.Build(*shared, _Steps(output), None, allowed=None))

        def find(name: str, platform: str) -> Base:
            image = bases.find(engine, name, platform, options, output.line, fresh, caller.gone)
            maker.hold(image)
            return Base(Node(Pulled(image, name)).output(), image.config, image)

        work = building.Build(
            *(dockerfile, plan, arguments, options, local, find, platform),
            engine=engine,
            files=context,
            output=output,
            caller=caller,
            maker=maker,
            cache=cache,
            solver=solver,
        )
        output.warnings(dockerfile.warnings)
        image = work.run()
        maker.settle()
        results.settled()
        _finish(engine, options, output, image, arguments.unused())
    return image


class _Steps(solving.Teller):
    """Tells what happens in a node as part of the step that it belongs to."""

    def __init__(self, output: Lines) -> None:
        self._output = output

    def begun(self, node: Node) -> Telling:
        """The output, unless nothing in the node is to be told."""
        return self._output if node.inputs else Telling()


def _finish(engine: ContainerParts, options: Options, output: Lines, image: Image, unused: list[str]) -> None:
    if unused:
        output.note(f"[Warning] One or more build-args [{' '.join(unused)}] were not consumed\n")
    output.note(f"Successfully built {short(image.id)}\n")
    for reference in options.tags:
        engine.images.tag(image, reference)
        output.note(f"Successfully tagged {reference.familiar}\n")
    output.result(image.id)
