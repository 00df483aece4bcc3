"""The daemon's main function: builds its parts, wires them together, starts the API server and waits for signals until
it is stopped.

It is the main thread of the daemon's process. It builds the parts in the order in which they need each other, adopts
the containers of an earlier daemon, and then only waits for a signal. A stop of the daemon stops no container, unless
the host goes down, or the settings say so (live-restore).
"""

import contextlib
import gc
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator

from engine import origin
from engine.daemon import dataroot, dump, interrupted, lastend, loglines, notify, proxyvariables, slumber
from engine.daemon.api.server import Servers
from engine.daemon.awaiting import Awaited
from engine.daemon.containers import paths
from engine.daemon.containers.exec.known import Execs
from engine.daemon.containers.roster import Roster
from engine.daemon.images.layers import storage
from engine.daemon.latepart import LatePart, is_made
from engine.daemon.runtime import worker
from engine.daemon.runtime.background import later
from engine.daemon.runtime.events import Events
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.schedule import Schedule
from engine.daemon.runtime.spawner import Spawner
from engine.daemon.store import containers as container_table
from engine.daemon.store import networks as network_table
from engine.daemon.store.database import Database
from engine.daemon.tar import trees
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid, NotFound, SystemFailure, Unavailable
from engine.kernel import memory, outside, title
from engine.late import TYPE_CHECKING, late
from engine.muxer import in_words, select
from engine.settings import cgroups
from engine.settings.advertised import REPORTED_VERSION
from engine.settings.defaults import BUILTIN, LOG_DRIVER
from engine.settings.every import Settings
from engine.settings.storagedriver import OVERLAY2
from engine.wire.channel import Channel

if TYPE_CHECKING:  # loaded where the daemon is to name another version of docker
    from engine.daemon.images.registry import transport
else:
    transport = late("engine.daemon.images.registry.transport")

if TYPE_CHECKING:  # loaded where the daemon is to give labels
    from engine.daemon.containers.security import labels
else:
    labels = late("engine.daemon.containers.security.labels")

if TYPE_CHECKING:  # loaded where there are containers already, or an earlier daemon has left something
    from engine.daemon import adopt
    from engine.daemon.containers import announce, files
    from engine.daemon.containers.exec import homes
    from engine.daemon.containers.life import end, oom, restarts
    from engine.daemon.containers.mounts import points
    from engine.daemon.containers.security import cgroupparent
    from engine.sandbox.cgroups import detection
    from engine.sandbox.cgroups.hierarchy import Cgroups
    from engine.wire.schema import Exited
else:
    adopt = late("engine.daemon.adopt")
    announce = late("engine.daemon.containers.announce")
    files = late("engine.daemon.containers.files")
    homes = late("engine.daemon.containers.exec.homes")
    end = late("engine.daemon.containers.life.end")
    oom = late("engine.daemon.containers.life.oom")
    restarts = late("engine.daemon.containers.life.restarts")
    points = late("engine.daemon.containers.mounts.points")
    cgroupparent = late("engine.daemon.containers.security.cgroupparent")
    detection = late("engine.sandbox.cgroups.detection")

if TYPE_CHECKING:  # loaded by the first request about one of them
    from engine.daemon.images import catalogue
    from engine.daemon.network import names, networks, ports, wiring
    from engine.daemon.network.firewall import control
    from engine.daemon.plugins import activation
    from engine.daemon.volumes import store as volumes
else:
    catalogue = late("engine.daemon.images.catalogue")
    names = late("engine.daemon.network.names")
    networks = late("engine.daemon.network.networks")
    ports = late("engine.daemon.network.ports")
    wiring = late("engine.daemon.network.wiring")
    control = late("engine.daemon.network.firewall.control")
    activation = late("engine.daemon.plugins.activation")
    volumes = late("engine.daemon.volumes.store")

if TYPE_CHECKING:  # loaded where the settings name a profile
    from engine.daemon.containers.security import profilefile
else:
    profilefile = late("engine.daemon.containers.security.profilefile")

if TYPE_CHECKING:  # loaded where containers have user namespaces
    from engine.daemon.containers.security import remapping
else:
    remapping = late("engine.daemon.containers.security.remapping")

if TYPE_CHECKING:  # loaded where the settings name a log driver, or options for one
    from engine.daemon.containers.output import logconfig
else:
    logconfig = late("engine.daemon.containers.output.logconfig")

if TYPE_CHECKING:  # loaded where networks are there from the start
    from engine.daemon.containers.endpoints import wires
else:
    wires = late("engine.daemon.containers.endpoints.wires")

if TYPE_CHECKING:  # loaded by a daemon of a user's own
    from engine.rootless import outward
else:
    outward = late("engine.rootless.outward")

if TYPE_CHECKING:  # most daemons never need them
    from engine.daemon import goingdown, idle, reload
    from engine.daemon.containers.life import shutdown
    from engine.daemon.network import remove as putting
    from engine.daemon.runtime import units
else:
    putting = late("engine.daemon.network.remove")
    shutdown = late("engine.daemon.containers.life.shutdown")
    goingdown = late("engine.daemon.goingdown")
    idle = late("engine.daemon.idle")
    reload = late("engine.daemon.reload")
    units = late("engine.daemon.runtime.units")

log = logging.getLogger(__name__)

_OF_DEFAULT_NETWORK = ("bridge", "bip", "bip6", "fixed_cidr", "fixed_cidr_v6", "default_gateway", "default_gateway_v6")
_FIRST_ANSWERS = 0.3  # seconds for clients that have waited for the start, before memory is tidied up


def _images(engine: "Engine") -> "catalogue.Catalogue":
    made = catalogue.Catalogue(
        engine.database, engine.settings.data_root, engine.settings, engine.storage, engine.events.publish
    )
    try:
        made.release(engine.containers.using)
    except SystemFailure as error:  # a full disk must not keep the daemon from serving
        log.warning("cannot delete removed images; the next start tries again: %s", error)
    return made


def _volumes(engine: "Engine") -> "volumes.Volumes":
    made = volumes.Volumes(engine.database, engine.settings.data_root, engine.events, engine.plugins)
    if engine.containers.glance_all():
        points.hold(engine.containers.all(), made)
    return made


@dataclass
class Engine:
    """The parts of a daemon, which the handlers see as `parts.DaemonParts`.

    id: a UUID kept in the data root; storage: `overlayfs` or `copy`; muxer: `c` or `python`
    started_ns: nanoseconds since the epoch
    """

    settings: Settings
    id: str
    started_ns: int
    storage: str
    muxer: str
    database: Database
    containers: Roster
    spawner: Spawner
    monitors: Monitors
    events: Events
    schedule: Schedule
    execs: Execs

    cgroups = LatePart(lambda own: _cgroups(own.settings))
    oom = LatePart(lambda _: oom.OomWatch())
    images = LatePart(_images)
    volumes = LatePart(_volumes)
    plugins = LatePart(lambda own: activation.Plugins(own.settings.plugin_dirs))
    networks = LatePart(
        lambda own: networks.Networks(own.database, own.settings, own.id, own.events, lambda: own.plugins)
    )
    firewall = LatePart(lambda own: control.Firewall(own.id, own.settings))
    wiring = LatePart(lambda own: wiring.Wiring(own.firewall.open_network))
    ports = LatePart(lambda own: ports.Ports(own.settings, own.spawner, own.monitors))
    names = LatePart(lambda own: names.Names(own.settings.exec_root, own.settings, own.spawner, own.monitors))


def run(settings: Settings, spawner: Channel, pid: int, stage: str, read: Callable[[], Settings]) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status of the process.

    spawner: the channel to the first spawner; pid: that spawner's, which is a child of this process
    stage: an empty directory, which a replacement of the spawner gets too
    read: reads the settings anew, for SIGHUP
    """
    title.name("daemon")
    loglines.configure(loglines.level(settings), settings.log_format)
    for note in settings.notes:
        log.warning("%s", note)
    proxyvariables.use(settings, os.environ)
    try:
        return _run(settings, Spawner(spawner, pid, settings.muxer, stage), read)
    except EngineError as error:
        log.error("%s", error)
        return 1


def _run(settings: Settings, spawner: Spawner, read: Callable[[], Settings]) -> int:
    inside, manager, starter = dump.Dump(spawner), notify.manager(), os.getppid()
    os.umask(0o022)
    memory.one_arena()
    threading.stack_size(worker.STACK_SIZE)
    _lift_descriptors()
    awaited = Awaited()
    dataroot.make(settings)
    with (
        dataroot.locked("data", settings.data_root),
        dataroot.locked("exec", settings.exec_root),
        _pidfile(settings.pidfile),
        lastend.noted(settings.exec_root) as died,
    ):
        log.info("muxer %s", in_words(select(settings.muxer), settings.muxer))
        engine = inside.engine = _build(settings, spawner)
        connection = None if outside.is_here() else outward.Outward(settings.exec_root)
        if connection is not None:
            connection.start()
        slept = slumber.find(settings.exec_root)
        if slept is not None:
            engine.events.restore(slept.events)
        due = adopt.adopt_all(engine, slept) if _is_left(engine) else []
        _clean_up(engine, slept is not None)
        interrupted.finish(engine)
        if settings.as_dockerd or (slept is None and _names_default_network(settings)):
            wires.begin(engine, required=slept is None)
        server = Servers(engine)
        threading.Thread(target=engine.monitors.watch, name="links", daemon=True).start()
        if not settings.live_restore and slept is None:
            due += shutdown.stop_left(engine)
        server.start()
        if due:
            later(restarts.resume if slept is None else restarts.go_on, engine, due)
        slumber.forget(settings.exec_root)
        may_end = idle.Idle(engine, server, settings.idle_exit, starter) if settings.idle_exit else None
        log.info("ready: storage %s", engine.storage)
        if settings.selinux_enabled and not labels.kernel_has():
            log.warning("this kernel has no SELinux: containers run without labels, as without --selinux-enabled")
        manager.ready()
        first = awaited.next(_FIRST_ANSWERS)
        _tidy()
        while (told := first or _told(awaited, may_end)) == signal.SIGHUP:
            first = 0
            manager.reloading()
            reload.reload(engine, read)
            manager.ready()
        manager.stopping()
        server.stop()
        down = told == signal.SIGPWR or (told == signal.SIGTERM and goingdown.goes_down())
        if down or (told and not engine.settings.live_restore):
            log.info("the containers are stopped: %s", "the host goes down" if down else "live-restore is off")
            shutdown.stop_all(engine, manager.stopping)
        if os.path.isdir(paths.wires(settings.exec_root)):
            adopt.clear_wires(engine)  # no other daemon may be started to do it
        if died or is_made(engine, "wiring"):
            putting.put_away(engine, asleep=not told)
        if is_made(engine, "cgroups"):
            engine.cgroups.leave()
        if connection is not None and not any(each.snapshot().alive for each in engine.containers.all()):
            connection.stop()
    if told:
        log.info("stopped; containers run on" if engine.settings.live_restore and not down else "stopped")
    return 0


def _names_default_network(settings: Settings) -> bool:
    """Whether the settings say something of the default network that may turn out to be impossible."""
    return settings.bridge != "none" and any(getattr(settings, name) for name in _OF_DEFAULT_NETWORK)


def _tidy() -> None:
    """Give back the memory that the start has taken."""
    origin.started()
    gc.enable()
    gc.collect()
    memory.trim()
    gc.freeze()  # these objects live as long as the daemon: no collection needs to walk them


def _told(awaited: Awaited, may_end: "idle.Idle | None") -> int:
    """Wait for a signal; returns its number, or 0 once the daemon has fallen asleep."""
    while may_end is not None and (left := may_end.left()) is not None:
        if told := awaited.next(left):
            return told
        if may_end.falls_asleep():
            return 0
    return awaited.next()


def _lift_descriptors() -> None:
    """Raise the soft limit of descriptors to the hard one. Every client is a descriptor, and the usual soft limit of
    1024 is meant for programs with select(2).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _is_left(engine: Engine) -> bool:
    """Whether there is anything of an earlier daemon's containers: a record, a run, an endpoint, a mount."""
    root = engine.settings.exec_root
    with engine.database.reading() as connection:
        return bool(
            engine.containers.glance_all()
            or os.listdir(paths.runs(root))
            or network_table.has_endpoints(connection)
            or os.path.isdir(paths.wires(root))
            or os.path.isdir(paths.lent(root))
        )


def _clean_up(engine: Engine, slept: bool) -> None:
    """Remove what an earlier daemon has left where it died, if there may be anything.

    slept: it fell asleep, and so left unfinished downloads at most
    """
    names = (dataroot.UNFINISHED,) if slept else dataroot.OF_IMAGES
    if any(os.listdir(os.path.join(engine.settings.data_root, name)) for name in names):
        engine.images.sweep()
    if os.listdir(os.path.join(engine.settings.data_root, dataroot.REMOVED_VOLUMES)):
        engine.volumes  # noqa: B018 - see above


@contextlib.contextmanager
def _pidfile(path: str) -> Iterator[None]:
    """Keep the daemon's pid in a file while it runs; the file of a daemon that died is replaced. Raises Unavailable."""
    if not path:
        yield
        return
    with contextlib.suppress(FileNotFoundError, ValueError), open(path) as file:
        other = int(file.read())
        if other != os.getpid() and _alive(other):
            raise Unavailable(f"process {other} of the pid file {path} is still running: stop it or delete the file")
    with dataroot.usable("pid file"), open(path, "w") as file:
        file.write(f"{os.getpid()}\n")
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):  # the file is already gone
            os.unlink(path)


def _alive(pid: int) -> bool:
    """Whether a process has this pid and is no zombie, which only waits to be reaped (proc_pid_stat(5))."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _cgroups(settings: Settings) -> "Cgroups":
    """The host's cgroups, by the driver that the settings name or the host's own. Raises Invalid, SystemFailure."""
    found = detection.detect(driver=cgroups.driver(settings.exec_opts), units=lambda: units.ours())
    cgroupparent.check(settings.cgroup_parent, found.driver)
    found.grant_real_time(settings.cpu_rt_period, settings.cpu_rt_runtime)
    log.info("%s", f"cgroup v{found.version} ({found.driver})" if found.version else "no cgroups")
    return found


def _build(settings: Settings, spawner: Spawner) -> Engine:
    if settings.seccomp_profile != BUILTIN:
        profilefile.text(settings.seccomp_profile)
    if settings.userns_remap:
        remapping.ids(settings.userns_remap)
    if settings.log_opts or settings.log_driver != LOG_DRIVER:
        wanted = logconfig.completed({"Type": "", "Config": {}}, settings.log_driver, settings.log_opts)
        try:
            logconfig.check(wanted, activation.Plugins(settings.plugin_dirs))
        except Invalid as error:
            raise Invalid(f"failed to set log opts: {error}") from error
    database = dataroot.database(settings.data_root)
    interrupted.forget_torn(database)
    with dataroot.usable("data root"):
        kind = storage.choose(settings.data_root, settings.storage_driver)
        identity = dataroot.engine_id(settings.data_root)
    with database.reading() as connection:
        containers = Roster(container_table.load_all(connection), container_table.load_descriptors(connection))
    loglines.name_by(containers.glance)
    if any(name not in containers for name in os.listdir(os.path.join(settings.data_root, "containers"))):
        files.sweep(settings.data_root, containers.__contains__)
    if settings.report_version != REPORTED_VERSION:
        transport.report(settings.report_version)
    if settings.storage_driver == OVERLAY2:
        with dataroot.usable("data root"):
            files.layerdb(settings.data_root)

    def ended(container_id: str, exited: "Exited | None") -> None:
        try:
            container = containers.find(container_id)
        except NotFound:
            log.warning("container %s ended, and there is no record of it", container_id)
            return
        end.ended(engine, container, exited)

    def detached(container_id: str) -> None:
        with contextlib.suppress(NotFound):  # the container is being removed
            announce.announce(engine, containers.find(container_id), "detach")

    trees.choose(select(settings.muxer))
    events, monitors = Events(), Monitors(spawner, ended, detached)
    engine = Engine(
        settings=settings,
        id=identity,
        started_ns=time.time_ns(),
        storage=kind,
        muxer=select(settings.muxer),
        database=database,
        containers=containers,
        spawner=spawner,
        monitors=monitors,
        events=events,
        schedule=Schedule(),
        execs=Execs(lambda exec_dir, exec_id: homes.clear(exec_dir, exec_id)),
    )
    if settings.exec_opts or settings.cgroup_parent or settings.cpu_rt_period or settings.cpu_rt_runtime:
        engine.cgroups  # noqa: B018 - what the host cannot have is refused now
    return engine
