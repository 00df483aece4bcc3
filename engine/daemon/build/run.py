"""The RUN step: runs its command in a container, relays the output, and makes the layer of what has changed.

Runs on the thread that builds. The container is created, started and removed by the functions that serve ordinary
containers, so it can be listed, stopped and counted like any other. Its output comes over a socket pair to this thread,
which waits for it and for the client's connection at once. When the client goes away, the step is ended and its
container removed.
"""

import contextlib
import hashlib
import os
import socket
from collections.abc import Iterator
from typing import Protocol

from engine.daemon.build import giving, mounting, wording
from engine.daemon.build.graph.snapshot import Part
from engine.daemon.build.options import Options
from engine.daemon.build.output import Output
from engine.daemon.build.state import Maker, State
from engine.daemon.containers import paths
from engine.daemon.containers.announce import announce
from engine.daemon.containers.contents import commit
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import create, remove, start, wait
from engine.daemon.dockerfile import commands
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.dataclass import dataclass
from engine.errors import CommandFailed, EngineError, Invalid, NotFound
from engine.logs.format import FRAME
from engine.wire.schema import Client

_OUTPUT = Client(streams=2 | 4, framed=True)
_ERRORS = 2
_PIECE = 64 * 1024
# BuildKit's directory for a here-document that is a program.
_PIPES = "/dev/pipes"


class Build(mounting.Build, Protocol):
    """The part of `building.Build` that a command needs."""

    options: Options
    output: Output
    maker: Maker

    def watch(self, descriptor: int, /) -> object: ...


@dataclass(frozen=True, slots=True)
class AskedRun:
    """The command of a RUN step, ready to be run.

    env: all variables that the command sees; known: those of them that decide the outcome, which a proxy argument
    without an ARG does not
    created_by: the step's line in the image's history
    script: the text of a program in a here-document, or empty; script_name: its file name
    """

    argv: tuple[str, ...]
    env: tuple[str, ...]
    known: tuple[str, ...]
    created_by: str
    network: str
    hosts: tuple[str, ...]
    mounts: tuple[mounting.Wanted, ...]
    script: str = ""
    script_name: str = ""

    @property
    def exact(self) -> bool:
        """Whether the line of history alone says all that decides the outcome."""
        return not self.mounts and not self.script

    def decides(self) -> dict[str, object]:
        """All that decides the outcome, except for the image below."""
        return {
            "kind": "RUN",
            "argv": self.argv,
            "env": self.known,
            "network": self.network,
            "hosts": self.hosts,
            "mounts": [mount.decides() for mount in self.mounts],
            "script": hashlib.sha256(self.script.encode("utf-8", "surrogateescape")).hexdigest(),
        }


def asked(build: Build, state: State, command: commands.Run) -> AskedRun:
    """The command of a RUN with its arguments and mounts resolved. Raises Invalid for what this builder cannot do."""
    if command.security != "sandbox":
        raise Invalid(
            f"--security={command.security} is not allowed: this builder gives no more rights than a container's"
        )
    argv, script = _command(state, command)
    own = {entry.partition("=")[0] for entry in state.config.get("Env") or ()}
    arguments = {name: value for name, value in state.arguments.visible().items() if name not in own}
    shown = [f"{name}={arguments[name]}" for name in sorted(state.arguments.shown(arguments))]
    words = [f"|{len(shown)}", *shown, *argv] if arguments else argv
    host = build.options.host
    network = command.network if command.network != "default" else host.get("NetworkMode", "default")
    mounts = [mounting.wanted(build, state, mount) for mount in command.mounts]
    return AskedRun(
        argv=argv,
        env=(
            *(state.config.get("Env") or ()),
            *(f"{name}={arguments[name]}" for name in sorted(arguments)),
            *_agents(mounts, own),
        ),
        known=(*(state.config.get("Env") or ()), *shown),
        created_by=" ".join(words),
        network=network,
        hosts=tuple(host.get("ExtraHosts") or ()),
        mounts=tuple(mount for mount in mounts if mount is not None),
        script=command.script.data if command.script else "",
        script_name=script,
    )


def _agents(mounts: list[mounting.Wanted | None], own: set[str]) -> list[str]:
    """The variable that names the first agent's socket, unless the step has one of that name."""
    sockets = [mount.target for mount in mounts if mount is not None and mount.mount.type == "ssh"]
    return [f"{giving.SOCKET}={sockets[0]}"] if sockets and giving.SOCKET not in own else []


def _command(state: State, command: commands.Run) -> tuple[tuple[str, ...], str]:
    """The argv to run, and the file name of the here-document if that is the program (else empty)."""
    if command.argv is not None:
        return command.argv, ""
    if command.script is not None:
        name = command.script.name
        if "/" in name or name in ("", ".", ".."):
            raise Invalid(f"a here-document that is run cannot be called {name}")
        return (f"{_PIPES}/{name}",), name
    return (*(state.config.get("Shell") or wording.SHELL), command.shell), ""


@contextlib.contextmanager
def run(build: Build, state: State, asked: AskedRun) -> Iterator[Part | None]:
    """Run the command; its layer, None where it changed nothing.

    Raises CommandFailed, ClientGone, what start raises.
    """
    store = build.engine.images
    targets = [mount.target for mount in asked.mounts]
    made = mounting.places(build, state, targets)
    with contextlib.ExitStack() as stack:
        mounts = stack.enter_context(mounting.mounted(build, asked.mounts))
        if asked.script:
            mounts.append(stack.enter_context(_script(build, asked)))
        container = _create(build, state, asked, mounts)
        # When the client is gone, the container is always removed. When the command has failed, the container stays, as
        # in docker, unless the client has asked for its removal.
        keep_failed = not build.options.force_remove
        try:
            _finish(build, container)
            where = paths.of(build.engine.settings.data_root, build.engine.settings.exec_root, container.id)
            mounting.clear(where.upper, made)
            blob = stack.enter_context(store.content.incoming())
            new = commit.layer(build.engine, container, build.maker.session, blob)
        except EngineError:
            if keep_failed:
                _let_stay(build, container)
            else:
                _remove(build, container)
            raise
        except BaseException:
            discard(build.engine, container)
            raise
        if build.options.remove:
            _remove(build, container)
        else:
            _let_stay(build, container)
        yield stack.enter_context(build.maker.kept(blob, *new)) if new else None


def _create(build: Build, state: State, asked: AskedRun, mounts: list[Object]) -> Container:
    engine = build.engine
    body = {
        "Image": state.identity,
        "Cmd": list(asked.argv),
        "Entrypoint": [""],
        "Env": list(asked.env),
        "User": state.config.get("User") or "",
        "WorkingDir": state.config.get("WorkingDir") or "",
        "Volumes": state.config.get("Volumes") or None,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            **build.options.host,
            "NetworkMode": asked.network,
            "LogConfig": {"Type": "none"},
            "Mounts": mounts or None,
        },
    }
    # `beside` writes the row of the step together with the container's. So a daemon that starts after a crash knows
    # which containers it may remove.
    container, warnings = create.create(engine, None, body, None, lasting=False, beside=table.begin_step)
    for warning in warnings:
        build.output.note(f" ---> [Warning] {warning}\n")
    build.output.running(container.id)
    return container


@contextlib.contextmanager
def _script(build: Build, asked: AskedRun) -> Iterator[Object]:
    """The read-only bind mount of a here-document that is a program."""
    above, name = build.context.scratch, f"script-{build.number}"
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700, dir_fd=above)
    try:
        with open(file, "wb") as sink:
            sink.write(asked.script.encode("utf-8", "surrogateescape"))
            os.fchmod(sink.fileno(), 0o755)
        source = os.path.join(os.readlink(f"/proc/self/fd/{above}"), name)
        yield {"Type": "bind", "Source": source, "Target": f"{_PIPES}/{asked.script_name}", "ReadOnly": True}
    finally:
        os.unlink(name, dir_fd=above)


def _finish(build: Build, container: Container) -> None:
    """Run the container to its end. Raises CommandFailed with the command's exit code."""
    engine = build.engine
    ours, theirs = socket.socketpair()
    with ours:
        waiter = wait.subscribe(container, "next-exit")
        with container.operation:
            container.waiting.append((_OUTPUT, theirs))
        announce(engine, container, "attach")
        start.start(engine, container)
        _relay(build, ours)
        code, text = waiter.result(build.watch)
    if code:
        words = " ".join(container.config["Cmd"] or ())
        message = f"The command '{words}' returned a non-zero code: {code}"
        raise CommandFailed(f"{message}: {text}" if text else message, code, words)


def _relay(build: Build, source: socket.socket) -> None:
    """Send the frames of the container's output to the client until the stream ends."""
    waiting = bytearray()
    while True:
        build.watch(source.fileno())
        data = source.recv(_PIECE)
        if not data:
            break
        waiting += data
        place = 0
        while len(waiting) - place >= FRAME.size:
            stream, size = FRAME.unpack_from(waiting, place)
            if len(waiting) - place < FRAME.size + size:
                break
            place += FRAME.size
            build.output.command(bytes(waiting[place : place + size]), stream == _ERRORS)
            place += size
        del waiting[:place]
    build.output.command_ended()


def _remove(build: Build, container: Container) -> None:
    discard(build.engine, container)
    build.output.removed(container.id)


def discard(engine: ContainerParts, container: Container) -> None:
    """Remove the container of a step in whatever state it is, with its volumes; also one of an earlier daemon."""
    with contextlib.suppress(NotFound):  # another thread has removed it already
        remove.remove(engine, container, force=True, volumes=True, lasting=False)
    if not engine.containers.using(container.image_id):
        engine.containers.descriptors.pop((container.image_id, container.manifest), None)
    _let_go(engine, container)


def _let_stay(build: Build, container: Container) -> None:
    _let_go(build.engine, container)


def _let_go(engine: ContainerParts, container: Container) -> None:
    with engine.database.transaction(frees=True) as connection:
        table.end_step(connection, container.id)
