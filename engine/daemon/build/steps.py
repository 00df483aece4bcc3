"""One function for each kind of Dockerfile instruction: carries out a step of a stage, from the cache or anew.

Runs on the thread that builds. Every step finds in the cache the image that it made before, or makes a new one.
"""

import contextlib
import posixpath
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.daemon.build import mounting, run, stepnodes, wording
from engine.daemon.build.cache import Cache, key_of
from engine.daemon.build.context import Context
from engine.daemon.build.copying import fetching, prepare
from engine.daemon.build.copying.request import Base
from engine.daemon.build.graph.node import Input, Node
from engine.daemon.build.graph.snapshot import Snapshot
from engine.daemon.build.graph.solver import Solver
from engine.daemon.build.options import Options
from engine.daemon.build.output import Output
from engine.daemon.build.pulled import Nothing, Pulled
from engine.daemon.build.state import Maker, State, shown_config
from engine.daemon.build.stepnodes import Surroundings
from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.commands import Command
from engine.daemon.dockerfile.parser import Instruction
from engine.daemon.images.layers import merged
from engine.daemon.parts import ContainerParts
from engine.dataclass import replace
from engine.errors import Invalid


class Build(Protocol):
    """The part of `building.Build` that steps need."""

    engine: ContainerParts
    options: Options
    context: Context
    output: Output
    maker: Maker
    cache: Cache
    solver: Solver

    def check(self) -> None: ...

    def around(self) -> Surroundings: ...


def take(build: Build, state: State, instruction: Instruction, escape: str) -> None:
    """Carry out one step of a stage. Raises EngineErrors, and OSErrors of the host."""
    command = state.read(instruction, escape)
    match command:
        case commands.Workdir():
            _workdir(build, state, command)
        case commands.Copy() | commands.Add():
            _copy(build, state, command)
        case commands.Run():
            _run(build, state, command)
        case _:
            _configure(build, state, command)


def _make(
    build: Build,
    state: State,
    created_by: str,
    what: dict[str, object],
    node: Callable[[Input], Node] | None = None,
    exact: bool = True,
    argv: Sequence[str] = (),
) -> None:
    """Stand on the image that this step makes: the one in the cache, or a new one.

    what: all that decides the step's outcome, except for the image below, the config and `created_by`
    node: the node that makes the step's files on a tree, None for a step that changes only the config
    exact: `created_by` alone says what the layer is made of, as `cachefrom` needs it
    argv: what the container of a step would run that runs nothing; empty for a step that has none
    """
    shown = shown_config(state.config)
    config = {**shown, "author": state.author}
    key = key_of(state.identity, str(state.platform), config, {**what, "text": created_by})
    image = build.cache.find(key)
    if image is not None:
        build.output.cached()
        build.maker.hold(image)
        state.image = image
        return
    trusted = build.cache.trusted(state.image, created_by) if exact else None
    if trusted is not None:
        build.output.cached()
        build.maker.take(state, created_by, *trusted)
        return
    part = None
    if node is not None:
        below = build.maker.tree(state.image)
        above = build.solver.snapshot(node(base_of(state)).output())
        part = above.parts[-1] if len(above.parts) > len(below.parts) else None
    shell, layers = _shell(build, state), state.layers
    idle = run.idle(build.engine, build.output, shell, shown, argv, layers) if argv else contextlib.nullcontext()
    with idle:
        image = build.maker.add(state, created_by, part)
    build.cache.keep(key, image, created_by)


def _shell(build: Build, state: State) -> run.Shell:
    options = build.options
    return run.Shell(host=options.host, image=state.identity, remove=options.remove, remove_failed=options.force_remove)


def base_of(state: State) -> Input:
    """The files that the stage's next step stands on."""
    return Node(Pulled(state.image, state.identity) if state.image else Nothing()).output()


def _configure(build: Build, state: State, command: Command) -> None:
    """Carry out an instruction that changes only the config."""
    before = (state.config.get("Healthcheck") or {}).get("Test") or ["NONE"]
    if isinstance(command, commands.Healthcheck) and before[0] != "NONE":
        build.output.note(f"Note: overriding previous HEALTHCHECK: {wording.plain(before)}\n")
    state.configure(command)
    argv = wording.nothing_run(state.config, "#(nop) ", wording.of(command, state.config))
    _make(build, state, " ".join(argv), {"kind": type(command).__name__}, argv=argv)


def _workdir(build: Build, state: State, command: commands.Workdir) -> None:
    state.configure(command)
    config = state.config
    path = posixpath.normpath(config["WorkingDir"])  # the path is cleaned before any link is followed

    around = build.around()

    def node(base: Input) -> Node:
        return stepnodes.directory_node(around, base, path, f"WORKDIR {path}")

    argv = wording.nothing_run(config, f"#(nop) {wording.of(command, config)}")
    _make(build, state, " ".join(argv), {"kind": "Workdir"}, node, argv=argv)


def _copy(build: Build, state: State, command: commands.Copy | commands.Add) -> None:
    around = build.around()
    request, urls, checksum = stepnodes.asked_copy(state, command)
    fetched = {url: _fetched(build, url, checksum, request.keep_git_dir) for url in urls}
    found = tuple(fetched.get(each, each) if isinstance(each, str) else each for each in request.sources)
    request = replace(request, sources=found, check=build.check)
    base = Base(state.layers, build.engine.images.layer_root, build.context.scratch)
    source = None
    if isinstance(command, commands.Copy) and command.from_:
        source = around.source(command.from_)
        layers = build.solver.snapshot(source).layers if source is not None else ()
        with merged.held(build.engine.images.layer_root, layers) as root:
            prepared = prepare.prepare(root, request, base)
    else:
        prepared = prepare.prepare(build.context.root, request, base)
    chown = f"--chown={command.chown} " if command.chown else ""
    text = f"{request.shown} {chown}{prepared.shown} in {command.destination} "
    what = {
        "kind": request.shown,
        "digest": prepared.digest,
        "destination": request.destination,
        "workdir": request.workdir,
        "chown": request.chown,
        "chmod": request.chmod,
        "exclude": request.exclude,
        "parents": request.parents,
        "link": request.link,
        "unpack": [request.unpack, request.unpack_fetched],
        "keep_owners": request.keep_owners,
    }

    def node(tree: Input) -> Node:
        return stepnodes.copy_node(around, tree, request, text, source, prepared=prepared)

    _make(build, state, " ".join(wording.nothing_run(state.config, f"#(nop) {text}")), what, node)


def _fetched(build: Build, url: str, checksum: str, keep_git_dir: bool | None) -> fetching.Fetched:
    told = build.output.downloading("Downloading")
    found = fetching.fetch(url, checksum, build.context.scratch, told, check=build.check, keep_git_dir=keep_git_dir)
    build.output.downloaded()
    return found


def _run(build: Build, state: State, command: commands.Run) -> None:
    if command.security != "sandbox":
        raise Invalid(
            f"--security={command.security} is not allowed: this builder gives no more rights than a container's"
        )
    around = build.around()
    asked = stepnodes.asked_run(around, state, command)
    asked = replace(asked, command=replace(asked.command, volumes=tuple(state.config.get("Volumes") or ())))
    shell = replace(_shell(build, state), repeats=state.arguments.dialect.commands_repeat)
    inputs = [Snapshot(), *(build.solver.snapshot(each) for each in asked.inputs)]
    layer_root, scratch = build.engine.images.layer_root, build.context.scratch
    seen = mounting.seen(layer_root, scratch, build.check, inputs, asked.mounts)
    what: dict[str, object] = {
        "kind": "RUN",
        "command": asked.command.decides(),
        "mounts": [mount.decides() for mount in asked.mounts],
        "seen": seen,
    }
    _make(build, state, asked.shown, what, lambda base: asked.node(base, around, shell, asked.shown), asked.exact)
