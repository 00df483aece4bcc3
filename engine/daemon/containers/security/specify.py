"""Translate a container's configuration into the `Sandbox` that the spawner builds, at each start and exec.

Runs in the API's threads. It decides nothing that create has not checked; it only translates the API's values into
those of `sandbox.spec`.
"""

import contextlib
import os
from collections.abc import Iterable

from engine.annotating import TypedDict
from engine.daemon.containers import files, paths
from engine.daemon.containers.contents import initlayer
from engine.daemon.containers.mounts import preparing
from engine.daemon.containers.output import logconfig
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import (
    cgroupparent,
    confinement,
    dockerinit,
    joins,
    lacking,
    profilefile,
    resources,
    runids,
    walls,
)
from engine.daemon.parts import ContentParts, OutputParts, ProcessParts, SecurityParts
from engine.daemon.tar.trees import remove_path
from engine.dataclass import replace
from engine.errors import NotBuilt, SystemFailure
from engine.kernel import userns
from engine.late import TYPE_CHECKING, late
from engine.logs.target import LogTarget
from engine.sandbox import capabilities, limits, selinux, sysctls
from engine.sandbox.spec import LARGEST_SIDE, Hook, Limits, Mount, Rlimit, Root, Sandbox
from engine.settings.runtimes import OWN, programs

if TYPE_CHECKING:  # loaded by the first container that asks for another runtime
    from engine.daemon.containers.security import apart, ociconfig, runtimeprogram
else:
    apart = late("engine.daemon.containers.security.apart")
    runtimeprogram = late("engine.daemon.containers.security.runtimeprogram")
    ociconfig = late("engine.daemon.containers.security.ociconfig")

if TYPE_CHECKING:  # loaded where containers have user namespaces
    from engine.daemon.containers.security import remapping
    from engine.kernel.idmaps import Ids
else:
    remapping = late("engine.daemon.containers.security.remapping")

if TYPE_CHECKING:  # loaded where the daemon is to give labels
    from engine.daemon.containers.security import labels
else:
    labels = late("engine.daemon.containers.security.labels")

# Docker's kernel parameters for a container with its own network namespace, as far as this kernel has them.
_NETWORK_SYSCTLS = tuple(
    (name, value) for name, value in sysctls.DEFAULT if os.path.exists(f"/proc/sys/{name.replace('.', '/')}")
)
# A process inherits its OOM score. If the daemon has one of its own, a container that asks for none gets 0.
_OWN_OOM_SCORE = 0 if limits.own_oom_score() else None
# At which points of a container's life init runs the hooks of devices, see `engine.birth.hooks`.
_HOOKS = frozenset({"createContainer", "startContainer"})
_DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sandbox_of(engine: SecurityParts, container: Container, where: paths.Paths) -> Sandbox:
    """The sandbox of one run. Raises what `joins`, `lacking` and `walls` refuse."""
    config, host_config = container.config, container.host_config
    lacking.check(engine.cgroups, host_config)
    namespaces = joins.namespaces_of(engine, container)
    if namespaces.joined:
        apart.check_joined(engine, {pid for _, pid, _ in namespaces.joined})
    if engine.settings.userns_remap:
        remapping.check(engine.settings, host_config)
    privileged = host_config["Privileged"]
    networked = joins.networked(engine, container) or container
    if networked is not container:
        where_of_network = paths.of(engine.settings.data_root, engine.settings.exec_root, networked.id)
    else:
        where_of_network = where
    injected = walls.injected_of(host_config, engine.settings.cdi_spec_dirs)
    devices, _ = walls.devices_of(host_config, injected)
    init = dockerinit.is_wanted(engine.settings, host_config)
    rights = _rights(engine, container)
    resources.check_files(rights["rlimits"])
    if engine.cgroups.begins_with_process(cgroupparent.of(container)):
        rights["cgroups"] = ()
    usual = walls.mounts_of(host_config, namespaces)
    arranged = preparing.arrange(engine, container, usual, _etc_mounts(container, where_of_network))
    if _labels_of(container)[1]:
        arranged = labels.mounted(container, arranged)
        labels.give(container, map(where_of_network.etc, files.NAMES), shared=networked is not container)
    # A container of the host's network that has networks switched off has a namespace too, and no parameters in it.
    parameters = _NETWORK_SYSCTLS if "net" in namespaces.own and host_config["NetworkMode"] != "host" else ()
    made = Sandbox(
        id=container.id,
        root=_root(engine, container, where),
        namespaces=namespaces.own,
        argv=dockerinit.command(container.path, container.args) if init else (container.path, *container.args),
        env=environment(container, config["Tty"], container.secrets),
        cwd=config["WorkingDir"] or "/",
        user=config["User"],
        hostname=config["Hostname"],
        domainname=config["Domainname"],
        mounts=(*arranged, *((dockerinit.mount(engine.settings),) if init else ())),
        devices=() if preparing.brings_dev(container) else devices,
        masked_paths=() if privileged else tuple(host_config["MaskedPaths"] or ()),
        readonly_paths=() if privileged else tuple(host_config["ReadonlyPaths"] or ()),
        sysctls=walls.sysctls_of(host_config, parameters, namespaces),
        tty=config["Tty"],
        rows=min(host_config["ConsoleSize"][0], LARGEST_SIDE),
        columns=min(host_config["ConsoleSize"][1], LARGEST_SIDE),
        joined=namespaces.joined,
        **rights,
    )
    if injected is not None:
        names = {each.partition("=")[0] for each in injected.env}
        made = replace(
            made,
            env=(*(each for each in made.env if each.partition("=")[0] not in names), *injected.env),
            mounts=(*made.mounts, *injected.mounts),
            groups=(*made.groups, *injected.groups),
        )
    made = lacking.confined(engine.cgroups, host_config, made)
    if engine.settings.userns_remap and (ids := remapping.of(engine.settings, host_config)) is not None:
        made = _remapped(engine, made, ids)
    hooks = injected.hooks if injected is not None else ()
    if host_config["Runtime"] not in OWN:
        return _by_runtime(engine, container, made, hooks, where)
    return _with_hooks(engine, container, made, hooks) if hooks else made


def _with_hooks(engine: SecurityParts, container: Container, made: Sandbox, hooks: tuple[Hook, ...]) -> Sandbox:
    """The sandbox whose init runs hooks. Raises SystemFailure for those that it cannot run, NotBuilt."""
    others = {each.point for each in hooks} - _HOOKS
    if others:
        what = f"the device has hooks ({', '.join(sorted(others))}), which only another --runtime runs"
        raise SystemFailure(f"CDI device injection failed: {what}")
    if made.uids:
        raise NotBuilt("devices with hooks are not built together with --userns-remap: give --userns=host")
    place = paths.bundle(engine.settings.exec_root, container.id)
    profile = walls.profile_of(container.host_config, profilefile.text(engine.settings.seccomp_profile))
    config = ociconfig.text(made, profile, os.path.basename(place), hooks)
    return replace(made, hooks=hooks, bundle=place, config=config)


def _remapped(engine: SecurityParts, made: Sandbox, ids: "Ids") -> Sandbox:
    """The sandbox in a user namespace with these ids: a new one, or that of the container that it shares another with.

    In what it shows of the files that the data root keeps for containers, such as volumes, these have its own ids.
    """
    mounts = tuple(
        replace(mount, source=source, flags=(*mount.flags, "idmap"))
        if mount.kind == "bind"
        and (source := remapping.kept(mount.source, engine.settings.data_root, asked=mount.asked))
        else mount
        for mount in made.mounts
    )
    if not made.joined:
        namespaces = (*made.namespaces, "user")
        return replace(made, mounts=mounts, uids=ids.users, gids=ids.groups, namespaces=namespaces)
    ids, *_ = [_ids_of(engine, pid) for _, pid, _ in made.joined]
    _, pid, start = made.joined[0]
    joined = (*made.joined, ("user", pid, start))
    return replace(made, mounts=mounts, uids=ids.users, gids=ids.groups, joined=joined)


def _ids_of(engine: SecurityParts, pid: int) -> "Ids":
    """The ids of the running container with this process 1. Raises SystemFailure where it has those of the host."""
    for other in engine.containers.all():
        if other.state.pid == pid and (ids := runids.of(engine, other)) is not None:
            return ids
    raise SystemFailure("a container whose namespaces are to be joined is in the user namespace of the host")


def _by_runtime(
    engine: SecurityParts, container: Container, made: Sandbox, hooks: tuple[Hook, ...], where: paths.Paths
) -> Sandbox:
    """The sandbox for another OCI runtime: its config, and the mounts that are made before it is called.

    Raises SystemFailure for a runtime whose program is not there, NotBuilt for what it cannot do.
    """
    name = container.host_config["Runtime"]
    program, *arguments = programs(engine.settings.runtimes).get(name) or ("",)
    if not userns.is_hosts():
        raise NotBuilt("another runtime than runc is not built for a daemon of a user's own")
    if made.uids:
        raise NotBuilt("another runtime than runc is not built together with --userns-remap: give --userns=host")
    place = paths.bundle(engine.settings.exec_root, container.id)
    profile = walls.profile_of(container.host_config, profilefile.text(engine.settings.seccomp_profile))
    found = runtimeprogram.found(name, program, tuple(arguments))
    runtime = (place, found.path, *found.arguments)
    if found.apart:
        apart.check(name, container.host_config, made)
        apart.keep(where.exec_dir, runtime)
    return replace(
        made,
        mounts=ociconfig.divided(made)[0],
        runtime=runtime,
        config=ociconfig.text(made, profile, os.path.basename(place), hooks),
    )


def process_of(engine: ProcessParts, container: Container) -> Sandbox:
    """The sandbox of a further process of the container (see `engine.birth.join`), without its command and user."""
    made = Sandbox(container.id, Root("", (), "", ""), (), (), (), **_rights(engine, container, running=True))
    ids = runids.of(engine, container)
    return made if ids is None else replace(made, uids=ids.users, gids=ids.groups)


class _Rights(TypedDict):
    """The rights and limits that all processes of a container have in common, as fields of `Sandbox`."""

    groups: tuple[str, ...]
    capabilities: tuple[str, ...]
    no_new_privileges: bool
    seccomp: bytes
    rlimits: tuple[Rlimit, ...]
    oom_score_adj: int | None
    cgroups: tuple[str, ...]
    seccomp_flags: int
    apparmor: str
    label: str


def _rights(engine: ProcessParts, container: Container, *, running: bool = False) -> _Rights:
    host_config = container.host_config
    asked = capabilities.effective(host_config["CapAdd"], host_config["CapDrop"], host_config["Privileged"])
    names = lacking.rights(engine.cgroups, host_config, asked)
    options, profile = host_config["SecurityOpt"], profilefile.text(engine.settings.seccomp_profile)
    return {
        "groups": tuple(host_config["GroupAdd"] or ()),
        "capabilities": names,
        "no_new_privileges": walls.security(options, engine.settings.no_new_privileges).no_new_privileges,
        "seccomp": walls.filter_of(host_config, names, profile),
        "rlimits": resources.rlimits_of(host_config, engine.settings.default_ulimits),
        "oom_score_adj": host_config["OomScoreAdj"] or _OWN_OOM_SCORE,
        "cgroups": engine.cgroups.entries(container.id, cgroupparent.of(container), running=running),
        "seccomp_flags": walls.filter_flags_of(host_config, profile),
        "apparmor": confinement.ready(walls.apparmor_of(host_config)),
        "label": _labels_of(container)[0],
    }


def _labels_of(container: Container) -> tuple[str, str]:
    """The SELinux labels of its processes and files; empty where the host runs without SELinux meanwhile."""
    if container.file_label and labels.kernel_has():
        return container.process_label, container.file_label
    return "", ""


class NewCgroup:
    """The cgroup of a run that is about to start, in `cgroupparent.of(container)`.

    around_init: it is made when init exists: `begin` and `make` get the pid of init
    """

    def __init__(self, engine: SecurityParts, container: Container) -> None:
        """Make nothing yet, but check what could be refused. Raises SystemFailure."""
        self._engine, self._container = engine, container
        self._limits, _ = engine.cgroups.fitting(limits_of(container))
        self._parent = cgroupparent.of(container)
        injected = walls.injected_of(container.host_config, engine.settings.cdi_spec_dirs)
        _, self._devices = walls.devices_of(container.host_config, injected)
        self.around_init = engine.cgroups.begins_with_process(self._parent)

    def begin(self, pid: int) -> None:
        """Have it made around init, while the caller goes on. Raises SystemFailure."""
        self._engine.cgroups.begin(self._container.id, self._limits, self._parent, pid)

    def make(self, pid: int = 0) -> None:
        """Make it, or wait until it is there. Raises SystemFailure."""
        privileged = self._container.host_config["Privileged"]
        self._engine.cgroups.create(
            self._container.id, self._limits, self._parent, all_devices=privileged, devices=self._devices, pid=pid
        )
        if self._limits.memory > 0:
            self._engine.oom.watch(self._engine, self._container)


def _root(engine: ContentParts, container: Container, where: paths.Paths) -> Root:
    base = engine.images.layer_root
    readonly = container.host_config["ReadonlyRootfs"]
    _, label = _labels_of(container)
    if engine.storage == "overlayfs":
        return Root(
            base, container.layers, where.upper, where.work, readonly, label=label, userxattr=engine.images.userxattr
        )
    return Root(base, (), where.upper, "", readonly, label=label)


def environment(container: Container, tty: bool, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The environment variables, in docker's order: PATH, HOSTNAME, TERM of a terminal, of links, those asked for.

    more: the variables that an exec adds
    """
    config = container.config
    asked = _replaced(config["Env"] or (), more) if more else config["Env"] or ()
    names = {each.partition("=")[0] for each in asked}
    given = [_DEFAULT_PATH, f"HOSTNAME={config['Hostname']}", *(["TERM=xterm"] if tty else []), *container.linked]
    return (
        *(each for each in given if each.partition("=")[0] not in names),
        *(each for each in asked if "=" in each),  # a name without "=" removes the variable
    )


def _replaced(env: Iterable[str], more: Iterable[str]) -> list[str]:
    """The variables of `env` with those of `more` in their places. A name without "=" stays; `environment` drops it."""
    by_name = {each.partition("=")[0]: each for each in env}
    return list((by_name | {each.partition("=")[0]: each for each in more}).values())


def _etc_mounts(container: Container, where: paths.Paths) -> tuple[Mount, ...]:
    names = files.mounted(container)
    return tuple(Mount("bind", where.etc(name), f"/etc/{name}", propagation="rprivate") for name in names)


def limits_of(container: Container) -> Limits:
    """The limits of the container's cgroup. Raises SystemFailure for a device of the host that does not exist."""
    return resources.limits_of(container.host_config, resources.device_number)


def log_of(engine: OutputParts, container: Container, where: paths.Paths) -> LogTarget:
    """The log target of the container's output."""
    return logconfig.target(engine.plugins, container, where)


def make_root(engine: ContentParts, container: Container, where: paths.Paths) -> None:
    """Make the writable directory of the container's root, which all its runs share. Raises OSError.

    `where.upper` appears last and complete: if it exists, nothing is left to be made.
    """
    overlay = engine.storage == "overlayfs"
    made = f"{where.upper}.part" if overlay else where.work
    with contextlib.suppress(FileNotFoundError):  # it exists only after an attempt that was cut off
        remove_path(made)
    os.mkdir(made, 0o755)
    if overlay:
        os.makedirs(where.work, 0o700, exist_ok=True)
    else:
        engine.images.copy_layers(container.layers, made)
    if container.image_id or not container.layers:  # a step of BuildKit's stands on a tree, which stays as it is
        layers = container.layers if overlay else ()
        initlayer.fill(made, [os.path.join(engine.images.layer_root, layer) for layer in layers])
    if container.file_label and not overlay:
        selinux.relabel(os.path.realpath(made), container.file_label)
    os.rename(made, where.upper)
