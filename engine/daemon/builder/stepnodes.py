"""Turns the instructions of a Dockerfile that run commands and copy files (RUN, COPY, ADD) into nodes of the graph.

Pure but for what a caller's `Surroundings` does.
"""

import posixpath
from collections.abc import Callable, Mapping

from engine.daemon.builder.copies import Copying, Packing
from engine.daemon.builder.copying import fetching
from engine.daemon.builder.copying.prepare import Prepared
from engine.daemon.builder.copying.request import Request
from engine.daemon.builder.graph.node import Input, Node
from engine.daemon.builder.localtree import Local
from engine.daemon.builder.mounting import Mount
from engine.daemon.builder.run import Command, Program, Running, Shell
from engine.daemon.builder.sourcechecks import Instead
from engine.daemon.builder.state import State
from engine.daemon.dockerfile import commands, configure, devices
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, replace
from engine.errors import Invalid
from engine.literals import quoted

# BuildKit's directory for a here-document that is a program.
_PIPES = "/dev/pipes"
_SECRETS, _SOCKET = "/run/secrets", "/run/buildkit/ssh_agent"
_NETWORKS = {"sandbox": "default"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the nodes of a build's steps have in common.

    context: the directory of the build's context; source: the tree that a `--from` names, None for an empty one; raises
    what finding it raises
    host: the part of HostConfig that every container gets; fresh: nothing is taken from the cache
    hostname: of every container, empty for one that is made up; cache_namespace: of the caches that RUN mounts
    """

    context: Local
    source: Callable[[str], Input | None]
    host: Object
    fresh: bool = False
    hostname: str = ""
    cache_namespace: str = ""


@dataclass(frozen=True, slots=True)
class AskedRun:
    """A RUN with its words and mounts resolved. shown: the command as history shows it, with the build's arguments

    exact: whether that line alone says all that decides the outcome
    """

    command: Command
    mounts: tuple[Mount, ...]
    inputs: tuple[Input, ...]
    shown: str
    exact: bool

    def node(self, base: Input, around: Surroundings, shell: Shell, title: str) -> Node:
        """The node that runs it on a tree."""
        inputs = [base, *self.inputs]
        if around.context.loading is not None and any(mount.local is not None for mount in self.mounts):
            inputs.append(around.context.loading)
        return Node(Running(self.command, title, self.mounts, shell), inputs, title, around.fresh)


def asked_run(around: Surroundings, state: State, command: commands.Run) -> AskedRun:
    """A RUN with its words and mounts resolved. Raises Invalid for what cannot be, and what `source` raises."""
    dialect = state.arguments.dialect
    if command.security != "sandbox" and not dialect.insecure_steps:
        fault = "this builder gives no more rights than a container's"
        raise Invalid(f"--security={command.security} is not allowed: {fault}")
    argv, program = _argv(state, command)
    arguments, proxies = state.visible(), state.arguments.proxies()
    given = arguments | proxies
    state.arguments.growth.take(sum(len(name) + len(value) for name, value in given.items()))
    words = [*state.arguments.history(arguments, state.environment()), *argv]
    network = command.network if command.network != "default" else around.host.get("NetworkMode", "default")
    inputs: list[Input] = []
    mounts = tuple(_mount(around, state, mount, inputs) for mount in command.mounts)
    own = (entry for entry in state.config.get("Env") or () if entry.partition("=")[0] not in given)
    env = (*own, *(f"{name}={given[name]}" for name in sorted(given)))
    asked = Command(
        argv=argv,
        env=env,
        unknown=frozenset(given) - frozenset(state.arguments.shown(arguments)),
        workdir=state.config.get("WorkingDir") or "/",
        user=state.config.get("User") or "",
        network=_NETWORKS.get(network, network),
        hosts=tuple(around.host.get("ExtraHosts") or ()),
        hostname=around.hostname,
        security=command.security,
        devices=tuple(map(devices.read, command.devices)),
        volumes=tuple(state.config.get("Volumes") or ()) if dialect.volumes_dropped else (),
        program=program,
    )
    return AskedRun(asked, mounts, tuple(inputs), " ".join(words), not mounts and program is None)


def _argv(state: State, command: commands.Run) -> tuple[tuple[str, ...], Program | None]:
    """The argv to run, and the here-document if that is the program."""
    dialect = state.arguments.dialect
    if command.argv is not None:
        if not command.argv:
            raise Invalid(dialect.refusals["words"])
        return command.argv, None
    if command.script is not None:
        name = command.script.name
        if "/" in name or name in ("", ".", ".."):
            raise Invalid(f"a here-document that is run cannot be called {name}")
        path = f"{_PIPES}/{name}"
        return (path,), Program(path=path, text=command.script.data.encode("utf-8", "surrogateescape"))
    text = (command.shell or "",) if command.shell or dialect.empty_text else ()
    return (*(state.config.get("Shell") or configure.SHELL), *text), None


# Mounts


def _mount(around: Surroundings, state: State, mount: commands.Mount, inputs: list[Input]) -> Mount:
    """The mount with its source found, which is added to the inputs. Raises Invalid."""
    id = _id_of(mount)
    if mount.type == "cache" and around.cache_namespace:
        id = f"{around.cache_namespace}/{id}"
    target = _target(state, mount, id)
    common = Mount(
        type=mount.type,
        target=target,
        selector=mount.source,
        readonly=mount.readonly,
        id=id,
        sharing=mount.sharing or "shared",
        uid=mount.uid or 0,
        gid=mount.gid or 0,
        mode=mount.mode,
        size=mount.size or 0,
        required=mount.required,
        env=mount.env or "",
    )
    if mount.type not in ("bind", "cache"):
        return common
    if not mount.from_:
        return replace(common, local=around.context) if mount.type == "bind" else replace(common, selector="")
    tree = around.source(mount.from_)
    if tree is None:  # FROM scratch is empty, and so is a new cache
        return replace(common, selector="") if mount.type == "cache" else common
    inputs.append(tree)
    return replace(common, source=len(inputs))


def _id_of(mount: commands.Mount) -> str:
    """The name of what is mounted: for its client, or among caches, where an empty one is the target."""
    if mount.type == "secret":
        return mount.id or posixpath.basename(mount.source or mount.target) or mount.env or "default"
    usual = {"ssh": "default", "cache": posixpath.normpath(mount.target)}
    return mount.id or usual.get(mount.type, "")


def _target(state: State, mount: commands.Mount, id: str) -> str:
    """Where the command finds it; empty for a secret that is a variable alone. Raises Invalid."""
    wanted = mount.target
    if mount.type == "secret" and not wanted:
        if mount.env is not None:
            return ""
        wanted = f"{_SECRETS}/{id}"
    if mount.type == "ssh" and not wanted:
        wanted = f"{_SOCKET}.0"
    target = posixpath.normpath(posixpath.join(state.config.get("WorkingDir") or "/", wanted))
    target = "/" + target.lstrip("/")
    if target == "/":
        raise Invalid(f"invalid mount target {quoted('/')}")
    return target


# COPY and ADD


@dataclass(frozen=True, slots=True)
class AskedCopy:
    """A COPY or an ADD. urls: those among its sources; checksum: of what is fetched, or empty

    source: the tree that is copied from, None for the context, or for an empty one where the request keeps owners
    """

    request: Request
    urls: tuple[str, ...]
    checksum: str
    source: Input | None

    def node(
        self,
        base: Input,
        around: Surroundings,
        title: str,
        prepared: Prepared | None = None,
        instead: Mapping[str, Instead] | None = None,
    ) -> Node:
        """The node that copies into a tree.

        prepared: the sources as the classic builder has digested them, None for BuildKit's copy; instead: as of
        `Copying`
        """
        local = None if self.request.keep_owners else around.context
        inputs = [base] if self.source is None else [base, self.source]
        if local is not None and local.loading is not None:
            inputs.append(local.loading)
        if prepared is not None:
            return Node(Packing(self.request, title, local, prepared), inputs, title, around.fresh)
        operation = Copying(self.request, title, local, self.urls, self.checksum, instead)
        return Node(operation, inputs, title, around.fresh)


def asked_copy(around: Surroundings, state: State, command: commands.Copy | commands.Add) -> AskedCopy:
    """A COPY or an ADD with its source found. Raises Invalid for what cannot be, and what `source` raises."""
    common = Request(
        sources=command.sources,
        destination=command.destination,
        workdir=state.config.get("WorkingDir") or "/",
        chown=command.chown,
        chmod=command.chmod,
        exclude=command.exclude,
        link=command.link,
        inline=tuple((file.name, file.data.encode("utf-8", "surrogateescape")) for file in command.heredocs),
        shown=type(command).__name__.upper(),
    )
    if isinstance(command, commands.Copy):
        source = around.source(command.from_) if command.from_ else None
        return AskedCopy(replace(common, keep_owners=bool(command.from_), parents=command.parents), (), "", source)
    urls = tuple(each for each in command.sources if fetching.is_remote(each))
    if command.checksum and len(command.sources) != 1:
        raise Invalid("checksum can't be specified for multiple sources")
    if command.checksum and not urls:
        raise Invalid("checksum requires HTTP(S) or Git sources")
    request = replace(
        common,
        unpack=command.unpack is not False,
        unpack_fetched=command.unpack is True,
        keep_git_dir=command.keep_git_dir,
    )
    return AskedCopy(request, urls, command.checksum, None)
