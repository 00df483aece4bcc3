"""RUN: an operation that runs a command in a container on a tree, and makes the layer of what has changed.

Runs on a thread that builds. The container is created, started and removed by the functions that serve ordinary
containers, so it can be listed, stopped and counted like any other. Its output comes over a socket pair to this thread,
which waits for it and for the client's connection at once. When the client goes away, the step is ended and its
container removed.
"""

import contextlib
import functools
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence

from engine.daemon.builder import cdigrants, mounting, stepgroups
from engine.daemon.builder.graph.node import Value, chains, digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.telling import Telling
from engine.daemon.builder.graph.work import HOST_NETWORK, Work
from engine.daemon.builder.mounting import Mount, Mounted
from engine.daemon.containers import paths
from engine.daemon.containers.announce import announce
from engine.daemon.containers.contents import changes, commit, initlayer
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import create, remove, start, wait
from engine.daemon.dockerfile.devices import Device
from engine.daemon.images.layers import merged
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.dataclass import dataclass, field
from engine.errors import CommandFailed, EngineError, Forbidden, NotFound
from engine.logs.format import FRAME
from engine.wire.schema import Client

_OUTPUT = Client(streams=2 | 4, framed=True)
_ERRORS = 2
_PIECE = 64 * 1024
# The limits of a container that a command may see, by their names in a HostConfig.
_SEEN = ("CgroupParent", "ShmSize", "Ulimits")
_AGENT = "SSH_AUTH_SOCK"  # the variable in which programs look for their agent
# The entitlement that each way out of the sandbox needs, by BuildKit's names.
INSECURE = "security.insecure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that is given as a text, and put into a file that the command can run. path: of that file"""

    path: str
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is run.

    argv: the command; env: its variables (`NAME=value`); unknown: names of those that do not decide the outcome
    network: `default`, `none`, `host`, or the name of a network; hosts: lines for /etc/hosts as `name:address`
    security: `sandbox` or `insecure`; readonly: nothing is written to the root; codes: exit codes of success
    volumes: paths whose contents are dropped at the command's end; program: a text that is run
    devices: CDI devices, which decide the outcome by the names that the command has for them
    """

    argv: tuple[str, ...]
    env: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()
    workdir: str = "/"
    user: str = ""
    network: str = "default"
    hosts: tuple[str, ...] = ()
    hostname: str = ""
    security: str = "sandbox"
    readonly: bool = False
    codes: tuple[int, ...] = (0,)
    volumes: tuple[str, ...] = ()
    program: Program | None = None
    devices: tuple[Device, ...] = ()

    def decides(self) -> list[Value]:
        """All of it that decides the outcome."""
        program = [self.program.path, hashlib.sha256(self.program.text).hexdigest()] if self.program else None
        return [
            self.argv,
            [each for each in self.env if each.partition("=")[0] not in self.unknown],
            self.workdir,
            self.user,
            self.network,
            [each.partition(":")[0] for each in self.hosts],  # their addresses decide nothing, as with BuildKit
            self.hostname,
            self.security,
            self.readonly,
            self.codes,
            self.volumes,
            program,
            [[each.name, each.required] for each in self.devices],
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The container that a command runs in.

    host: the rest of a HostConfig, of which a few limits decide the outcome, as BuildKit has it
    image: the image that it is shown to stand on, empty for none; repeats: that image decides the outcome, not only its
    files, so that a command runs again after one that has changed nothing
    remove: it is removed after success; remove_failed: and after a failure
    hostname: where the command has none, empty for the container's own
    """

    host: Object = field(default_factory=dict)
    image: str = ""
    repeats: bool = False
    remove: bool = True
    remove_failed: bool = True
    hostname: str = ""

    def decides(self) -> Value:
        """What of it decides the outcome: the limits, and the image where it does."""
        limits = json.dumps({name: self.host[name] for name in _SEEN if self.host.get(name)}, sort_keys=True)
        return [limits, self.image] if self.repeats else limits


def check_allowed(work: Work, network: str, security: str) -> None:
    """Raise Forbidden for what the build has no entitlement to. network, security: as of a `Command`"""
    wanted = {INSECURE: security == "insecure", HOST_NETWORK: network == "host"}
    for name, needed in wanted.items():
        if needed and not work.may(name):
            raise Forbidden(f"{name} is not allowed")


class StepFailed(CommandFailed):
    """The command of a step has failed, and what it has left can be looked at.

    operation; inputs: what it was run on; root: gives its root as it is now, while that is held; written: its mounts
    that would have been outputs; metadata: what its frontend says of the result all the same
    """

    def __init__(
        self,
        failure: CommandFailed,
        operation: "Running",
        inputs: Sequence[Snapshot],
        root: Callable[[], Snapshot],
        written: Sequence[Snapshot],
    ) -> None:
        super().__init__(str(failure), failure.code, failure.command)
        self.operation, self.inputs, self.root, self.written = operation, tuple(inputs), root, tuple(written)
        self.metadata: dict[str, bytes] = {}


class Running:
    """An operation that runs a command on its first input. Mounts name their sources among the inputs.

    Its outputs are the tree with what the command has changed, and after it one for each mount that has an output.
    """

    kind = "regular"

    def __init__(
        self,
        command: Command,
        title: str,
        mounts: Sequence[Mount] = (),
        shell: Shell | None = None,
    ) -> None:
        self.title = title
        self.command, self.mounts = command, tuple(mounts)
        self.shell = shell or Shell()

    def key(self) -> str:
        """The command and its mounts."""
        mounts = [[*mount.decides(), mount.where()] for mount in self.mounts]
        return digest("run", self.command.decides(), self.shell.decides(), mounts)

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str:
        """The same with the contents that the command finds. Raises Forbidden, NotFound as `make` does.

        Nobody gets from the cache what he may not have made.
        """
        check_allowed(work, self.command.network, self.command.security)
        _devices(work, self.command)
        found = mounting.seen(work.check, inputs, self.mounts)
        asked = [mount.decides() for mount in self.mounts]
        return digest("run", self.command.decides(), self.shell.decides(), asked, chains(inputs[:1]), found)

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Run the command. Raises CommandFailed with its exit code, what start raises.

        Raises Forbidden and NotFound for its devices.
        """
        devices = _devices(work, self.command)
        root = inputs[0]
        store = work.engine.images
        targets = [mount.target for mount in self.mounts if mount.target]
        made = mounting.places(store.layer_root, root.layers, targets)
        with contextlib.ExitStack() as stack:
            stack.enter_context(stepgroups.used(work.engine, self.shell.host.get("CgroupParent") or ""))
            mounts = stack.enter_context(mounting.mounted(work, inputs, self.mounts))
            if self.command.program is not None:
                mounts.host.append(stack.enter_context(_program(work, self.command.program)))
            container = self._create(work, root, mounts, devices)
            with _removed(work.engine, work.told, self.shell, container):
                where = paths.of(work.engine.settings.data_root, work.engine.settings.exec_root, container.id)
                try:
                    _finish(work, container, self.command.codes)
                except CommandFailed as failure:
                    if work.hold is None:
                        raise
                    mounting.clear(where.upper, made)
                    written = [_written(work, *each) for each in mounts.written]
                    work.hold(functools.partial(_leave, work.engine, work.told, container, self.shell.remove_failed))
                    changed = functools.cache(functools.partial(_changed, work, root, container))
                    raise StepFailed(failure, self, inputs, changed, written) from failure
                mounting.clear(where.upper, made)
                outputs = [_changed(work, root, container), *(_written(work, *each) for each in mounts.written)]
        return tuple(outputs)

    def _create(self, work: Work, root: Snapshot, mounts: Mounted, devices: Sequence[str]) -> Container:
        command, own = self.command, self.shell
        names = {each.partition("=")[0] for each in command.env}
        agents = [f"{_AGENT}={mounts.agents[0]}"] if mounts.agents and _AGENT not in names else []
        body: Object = {
            "Image": own.image,
            "Cmd": list(command.argv),
            "Entrypoint": [""],
            "Env": list(command.env),
            "User": command.user,
            "Hostname": command.hostname or own.hostname,
            "WorkingDir": command.workdir,
            "Volumes": dict.fromkeys(command.volumes) or None,
            "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": {
                **own.host,
                "NetworkMode": command.network,
                "ExtraHosts": list(command.hosts),
                "LogConfig": {"Type": "none"},
                "Mounts": mounts.host or None,
                "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": list(devices)}] if devices else None,
                "Privileged": command.security == "insecure",
                "ReadonlyRootfs": command.readonly,
            },
        }
        container = _created(work.engine, work.told, body, create.Trees(root.layers, mounts.shown))
        container.secrets = (*agents, *mounts.env)
        return container


@contextlib.contextmanager
def idle(
    engine: ContainerParts, told: Telling, shell: Shell, config: Object, argv: Sequence[str], layers: tuple[str, ...]
) -> Iterator[None]:
    """A container that never runs: dockerd has one for each step that changes only the config, and commits it.

    config, argv: what it would run with; layers: what it stands on
    """
    host = {**shell.host, "LogConfig": {"Type": "none"}}
    body: Object = {**config, "Image": shell.image, "Cmd": list(argv), "HostConfig": host}
    with _removed(engine, told, shell, _created(engine, told, body, create.Trees(layers, {}))):
        yield


def _created(engine: ContainerParts, told: Telling, body: Object, trees: create.Trees) -> Container:
    # `beside` writes the row of the step together with the container's. So a daemon that starts after a crash knows
    # which containers it may remove.
    container, warnings = create.create(engine, None, body, None, lasting=False, beside=table.begin_step, trees=trees)
    for warning in warnings:
        told.note(f" ---> [Warning] {warning}\n")
    told.running(container.id)
    return container


@contextlib.contextmanager
def _removed(engine: ContainerParts, told: Telling, shell: Shell, container: Container) -> Iterator[None]:
    """Remove the container of a step at its end, or let the client have it."""
    try:
        yield
    except StepFailed:  # it is held for a look
        raise
    except EngineError:
        _leave(engine, told, container, shell.remove_failed)  # it may stay for a look, as in docker
        raise
    except BaseException:  # the client is gone
        discard(engine, container)
        raise
    _leave(engine, told, container, shell.remove)


def _leave(engine: ContainerParts, told: Telling, container: Container, remove_it: bool) -> None:
    if not remove_it:
        _let_go(engine, container)
        return
    discard(engine, container)
    told.removed(container.id)


def _devices(work: Work, command: Command) -> list[str]:
    """The names of the CDI devices that the command gets. Raises NotFound, Forbidden in BuildKit's words."""
    if not command.devices:
        return []
    return cdigrants.given(work.engine.settings.cdi_spec_dirs, command.devices, work.allowed)


@contextlib.contextmanager
def _program(work: Work, program: Program) -> Iterator[Object]:
    """The read-only bind mount of a program that is given as a text."""
    above, name = work.scratch, f"program-{os.urandom(8).hex()}"
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700, dir_fd=above)
    try:
        with open(file, "wb") as sink:
            sink.write(program.text)
            os.fchmod(sink.fileno(), 0o755)
        source = os.path.join(os.readlink(f"/proc/self/fd/{above}"), name)
        yield {"Type": "bind", "Source": source, "Target": program.path, "ReadOnly": True}
    finally:
        os.unlink(name, dir_fd=above)


def _changed(work: Work, root: Snapshot, container: Container) -> Snapshot:
    """The tree with what the container has changed in it."""
    with work.keeper.incoming() as blob:
        places = initlayer.FILES if work.keeper.traces else initlayer.PATHS
        new = commit.layer(work.engine, container, work.keeper.session, blob, places)
        return work.keeper.added(blob, new, root)


def _written(work: Work, top: int, below: Snapshot) -> Snapshot:
    """The tree with what differs in a directory that the command has written to."""

    def differences(root: int) -> Snapshot:
        with work.keeper.incoming() as blob:
            new = changes.between(root, top, lambda top, found: commit.unpacked(top, found, work.keeper.session, blob))
            return work.keeper.added(blob, new, below)

    with merged.held(work.engine.images.layer_root, below.layers) as root:
        return differences(root)


def _finish(work: Work, container: Container, codes: tuple[int, ...]) -> None:
    """Run the container to its end. Raises CommandFailed with the command's exit code."""
    engine = work.engine
    ours, theirs = socket.socketpair()
    with ours:
        waiter = wait.subscribe(container, "next-exit")
        with container.operation:
            container.waiting.append((_OUTPUT, theirs))
        announce(engine, container, "attach")
        start.start(engine, container)
        _relay(work, ours)
        code, text = waiter.result(work.watch)
    if code not in codes:
        words = " ".join(container.config["Cmd"] or ())
        message = f"The command '{words}' returned a non-zero code: {code}"
        raise CommandFailed(f"{message}: {text}" if text else message, code, words)


def _relay(work: Work, source: socket.socket) -> None:
    """Tell the frames of the container's output until the stream ends."""
    waiting = bytearray()
    while True:
        work.watch(source.fileno())
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
            work.told.command(bytes(waiting[place : place + size]), stream == _ERRORS)
            place += size
        del waiting[:place]
    work.told.command_ended()


def discard(engine: ContainerParts, container: Container) -> None:
    """Remove the container of a step in whatever state it is, with its volumes; also one of an earlier daemon."""
    with contextlib.suppress(NotFound):  # another thread has removed it already
        remove.remove(engine, container, force=True, volumes=True, lasting=False)
    if not engine.containers.using(container.image_id):
        engine.containers.descriptors.pop((container.image_id, container.manifest), None)
    _let_go(engine, container)


def _let_go(engine: ContainerParts, container: Container) -> None:
    with engine.database.transaction(frees=True) as connection:
        table.end_step(connection, container.id)
