"""One function for each kind of Dockerfile instruction: carries out a step of a stage, from the cache or anew.

Runs on the thread that builds. Every step finds in the cache the image that it made before, or makes a new one.
"""

import copy
import posixpath
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from engine.daemon.build import run, wording, workdir
from engine.daemon.build.cache import Cache, key_of
from engine.daemon.build.copying import fetching, prepare
from engine.daemon.build.copying.request import Base, Request
from engine.daemon.build.graph.snapshot import Part
from engine.daemon.build.state import State, shown_config
from engine.daemon.dockerfile import commands, configure, instructions, words
from engine.daemon.dockerfile.commands import Command
from engine.daemon.dockerfile.parser import Instruction
from engine.daemon.images.layers import merged
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, replace
from engine.errors import Invalid


class Build(run.Build, Protocol):
    """The part of `building.Build` that steps need."""

    cache: Cache


@dataclass(frozen=True, kw_only=True)
class Given(Instruction):
    """An instruction that the client has given beside the Dockerfile (a label).

    Its command is known and needs no parsing.
    """

    command: Command


def take(build: Build, state: State, instruction: Instruction, escape: str) -> None:
    """Carry out one step of a stage. Raises EngineErrors, and OSErrors of the host."""
    if isinstance(instruction, Given):
        command = instruction.command
    else:
        seen = state.environment()
        command = instructions.read(
            instruction,
            lambda text: words.expand(text, seen, escape),
            lambda text: words.expand_list(text, seen, escape),
            escape,
            lambda text: words.expand_raw(text, seen, escape),
        )
    match command:
        case commands.Arg():
            _arg(build, state, command)
        case commands.Workdir():
            _workdir(build, state, command)
        case commands.Copy():
            _copy(build, state, command)
        case commands.Add():
            _add(build, state, command)
        case commands.Run():
            _run(build, state, command)
        case _:
            _configure(build, state, command)


def _nothing() -> AbstractContextManager[Part | None]:
    return nullcontext()


def _make(
    build: Build,
    state: State,
    created_by: str,
    what: dict[str, object],
    make: Callable[[], AbstractContextManager[Part | None]] = _nothing,
    exact: bool = True,
) -> None:
    """Stand on the image that this step makes: the one in the cache, or a new one.

    what: all that decides the step's outcome, except for the image below, the config and `created_by`
    make: makes the step's layer; exact: `created_by` alone says what the layer is made of, as `cachefrom` needs it
    """
    config = {**shown_config(state.config), "author": state.author}
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
    with make() as part:
        image = build.maker.add(state, created_by, part)
    build.cache.keep(key, image, created_by)


def _configure(build: Build, state: State, command: Command) -> None:
    """Carry out an instruction that changes only the config."""
    config = copy.deepcopy(state.config)
    _note(build, config, command)
    if isinstance(command, commands.Maintainer):
        state.author = command.name
    else:
        configure.apply(config, command, cmd_set=state.command_set)
    state.config = config
    if isinstance(command, commands.Cmd):
        state.command_set = True
    text = wording.nothing_run(config, wording.of(command, config))
    _make(build, state, text, {"kind": type(command).__name__})


def _note(build: Build, config: Object, command: Command) -> None:
    before = (config.get("Healthcheck") or {}).get("Test") or ["NONE"]
    if isinstance(command, commands.Healthcheck) and before[0] != "NONE":
        build.output.note(f"Note: overriding previous HEALTHCHECK: {wording.plain(before)}\n")


def _arg(build: Build, state: State, command: commands.Arg) -> None:
    for name, default in command.pairs:
        state.arguments.declare(name, default)
    _make(build, state, wording.nothing_run(state.config, wording.of(command, state.config)), {"kind": "Arg"})


def _workdir(build: Build, state: State, command: commands.Workdir) -> None:
    config = copy.deepcopy(state.config)
    configure.apply(config, command, cmd_set=state.command_set)
    state.config = config
    path = posixpath.normpath(config["WorkingDir"])  # the path is cleaned before any link is followed

    def make() -> AbstractContextManager[Part | None]:
        layer_root = build.engine.images.layer_root
        absent = merged.within(layer_root, state.layers, lambda root: workdir.missing(root, path))
        return build.maker.packed(workdir.tar(absent)) if absent else nullcontext()

    text = wording.nothing_run(config, wording.of(command, config), gap="")
    _make(build, state, text, {"kind": "Workdir"}, make)


def _copy(build: Build, state: State, command: commands.Copy) -> None:
    asked = _request(build, state, command)
    request = replace(asked, keep_owners=bool(command.from_), parents=command.parents)
    if not command.from_:
        _place(build, state, command, request, build.context.root)
        return
    source = build.source(command.from_)
    with merged.held(build.engine.images.layer_root, source.layers if source else ()) as root:
        _place(build, state, command, request, root)


def _add(build: Build, state: State, command: commands.Add) -> None:
    sources = tuple(
        _fetched(build, each, command.checksum) if fetching.is_url(each) else each for each in command.sources
    )
    if command.checksum and not any(isinstance(each, fetching.Fetched) for each in sources):
        raise Invalid("checksum can't be specified for sources that are not downloaded")
    request = replace(
        _request(build, state, command),
        sources=sources,
        unpack=command.unpack is not False,
        unpack_fetched=command.unpack is True,
    )
    _place(build, state, command, request, build.context.root)


def _fetched(build: Build, url: str, checksum: str) -> fetching.Fetched:
    found = fetching.fetch(url, checksum, build.context.scratch, build.output.downloading("Downloading"))
    build.output.downloaded()
    return found


def _request(build: Build, state: State, command: commands.Copy | commands.Add) -> Request:
    """The part of the request that COPY and ADD have in common."""
    return Request(
        sources=command.sources,
        destination=command.destination,
        workdir=state.config.get("WorkingDir") or "/",
        chown=command.chown,
        chmod=command.chmod,
        exclude=command.exclude,
        link=command.link,
        inline=tuple((file.name, file.data.encode("utf-8", "surrogateescape")) for file in command.heredocs),
        shown=type(command).__name__.upper(),
        check=build.check,
    )


def _place(build: Build, state: State, command: commands.Copy | commands.Add, request: Request, root: int) -> None:
    base = Base(state.layers, build.engine.images.layer_root, build.context.scratch)
    prepared = prepare.prepare(root, request, base)
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
    created_by = wording.nothing_run(state.config, text, gap="")
    _make(build, state, created_by, what, lambda: build.maker.packed(prepared.tar()))


def _run(build: Build, state: State, command: commands.Run) -> None:
    asked = run.asked(build, state, command)
    _make(build, state, asked.created_by, asked.decides(), lambda: run.run(build, state, asked), asked.exact)
