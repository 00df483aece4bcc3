"""Runs a generator of bills of materials on the trees of a build's result, each run a step of the build's graph.

Runs on the thread of Control/Solve, before the build and after it. The generator sees the trees read-only, and has the
rights of a RUN and no more; it is root, as with BuildKit. The cache keeps what it has written about the same trees.
Protocol: buildkit, docs/attestations/sbom-protocol.md.
"""

from collections.abc import Sequence

from engine.daemon.builder.converting import Base
from engine.daemon.builder.graph.node import Input, Node
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.mounting import Mount
from engine.daemon.builder.options import Options
from engine.daemon.builder.pulled import Given
from engine.daemon.builder.run import Command, Running
from engine.daemon.buildkit import authority, policyevaluator
from engine.daemon.buildkit.attestwishes import Generator
from engine.daemon.buildkit.basefinding import Bases
from engine.daemon.buildkit.exporters.intoto import Attestation
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import explaining
from engine.daemon.buildkit.outcome import Outcome, Tree
from engine.daemon.buildkit.sbom import generated
from engine.daemon.buildkit.told import Vertices
from engine.daemon.images import platform as platforms
from engine.daemon.images.layers import merged
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError, Invalid

_SOURCES, _DESTINATION = "/run/src", "/run/out/"
_CORE, _EXTRAS = f"{_SOURCES}/core/{generated.CORE}", f"{_SOURCES}/extras/"
_VARIABLE = "BUILDKIT_SCAN_"


class Scanner:
    """A generator that is ready to run for one build."""

    def __init__(self, engine: DaemonParts, job: Job, generator: Generator) -> None:
        """Finds its image. Raises EngineErrors."""
        self._engine, self._job, self._generator = engine, job, generator
        self._base = _found(engine, job, generator)

    def scan(self, outcome: Outcome) -> list[list[Attestation]]:
        """What it writes about each tree of the result, in order. Raises EngineErrors."""
        job = self._job
        output = Vertices(job.progress)
        solver = job.workroom(self._engine).solver(output, None)
        fresh = job.asked["FrontendAttrs"].get("no-cache") == ""
        nodes = [_node(self._generator, self._base, tree, fresh or tree.fresh) for tree in outcome.trees]
        try:
            solver.solve(nodes)
        except EngineError as error:
            raise explaining.explained(error, output.failed, None) from error
        written = [solver.snapshot(node.output(1)) for node in nodes]
        return [merged.within(self._engine.images.layer_root, each.layers, generated.read) for each in written]


def _found(engine: DaemonParts, job: Job, generator: Generator) -> Base:
    """The generator's image, as one of the images that the build uses."""
    name = policyevaluator.checks(engine, job).image(generator.image.canonical)
    pull = job.asked["FrontendAttrs"].get("image-resolve-mode") == "pull"
    options = Options(pull=pull, credentials=authority.of_session(job.asked["Session"], job.check))
    keeper = job.workroom(engine).keeper
    with Bases(engine, keeper, options, job.progress, job.caller, job.captured) as bases:
        base = bases.find(name, str(platforms.host()))
    if base.tree is not None:
        base.tree.node.name = f"docker-image://{name}"
    return base


def _node(generator: Generator, base: Base, tree: Tree, fresh: bool) -> Node:
    """The step that scans one tree: its second output is what the generator has written."""
    config = base.document.get("config") or {}
    argv = (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ()))
    if not argv or base.tree is None:
        raise Invalid(f"scanner {generator.image.canonical} does not have cmd")
    variables = dict(each.split("=", 1) for each in config.get("Env") or () if "=" in each)
    variables |= {f"{_VARIABLE}DESTINATION": _DESTINATION, f"{_VARIABLE}SOURCE": _CORE}
    variables |= {f"{_VARIABLE}SOURCE_EXTRAS": _EXTRAS} if tree.beside else {}
    variables |= {_VARIABLE + name: value for name, value in sorted(generator.parameters.items())}
    seen = [(_CORE, Snapshot(tree.parts))]
    seen += [(f"{_EXTRAS}{generated.CORE}-{name}", each) for name, each in sorted(tree.beside.items())]
    mounts = [Mount(type="tmpfs", target="/tmp")]
    mounts += [
        Mount(type="bind", target=target, source=place, readonly=True) for place, (target, _) in enumerate(seen, 1)
    ]
    mounts.append(Mount(type="bind", target=_DESTINATION.rstrip("/"), output=True))
    env = tuple(f"{name}={value}" for name, value in variables.items())
    command = Command(argv=argv, env=env, workdir=config.get("WorkingDir") or "/")
    title = f"[{tree.platform}] generating sbom using {generator.image.canonical}"
    return Node(Running(command, title, mounts), (base.tree, *_inputs(seen)), title, fresh)


def _inputs(seen: Sequence[tuple[str, Snapshot]]) -> list[Input]:
    return [Node(Given(tree)).output() for _, tree in seen]
