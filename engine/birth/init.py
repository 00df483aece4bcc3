"""Turns the forked child of a monitor into process 1 of a container: namespaces, mounts, devices, rights, then execve.

Runs in that child only, single-threaded, and never returns: it ends in execve or os._exit. The steps stand in one
table, in order; a step that fails is told to the monitor by its name (`wire.report`). Steps that every process of a
container has are in `process`. What does not depend on the daemon's part (cgroups, network) is done while the daemon
does that part, before `PROCEED` is awaited. It never changes the host's mounts: by then it has private copies of them.
It trusts nothing in the image's files.

Everything is imported and bound here at import time: after the fork each object built is a page copied.
"""

import contextlib
import os
import socket
from collections.abc import Callable

from engine.birth.process import FAILED, Process, seclude
from engine.errors import Invalid
from engine.kernel import syscalls
from engine.kernel.beneath import is_directory, make_directories, make_file
from engine.kernel.descriptors import close_on_exec
from engine.kernel.netlink import loopback
from engine.late import TYPE_CHECKING, late
from engine.sandbox import devices, limits, masks, mounts, namespaces, selinux, sources, stage, sysctls
from engine.sandbox.cgroups import view
from engine.sandbox.spec import Mount, Sandbox
from engine.wire import report as protocol

if TYPE_CHECKING:  # loaded by the init of a container whose devices have hooks
    from engine.birth import hooks
else:
    hooks = late("engine.birth.hooks")

if TYPE_CHECKING:  # loaded by the first container with a user namespace of its own
    from engine.sandbox import remapped
else:
    remapped = late("engine.sandbox.remapped")


class _Init(Process):
    """One run of the steps, and the state that steps hand to each other.

    Its descriptors are closed when the process ends.
    """

    mounts_alone = True

    def __init__(
        self, sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int, staged: stage.Stage | None
    ) -> None:
        super().__init__(sandbox, stdio, report)
        self.staged = staged
        self.furnished = staged is not None and stage.furnishes(sandbox)
        self.ready = staged is not None  # the monitor was told that the namespaces exist
        self.proceeding = False
        self.sources: dict[Mount, int] = {}
        self.late: tuple[Mount, ...] = ()

    def wait(self) -> None:
        """Wait for PROCEED, once; an end of file instead means that nobody wants this container any more."""
        if not self.proceeding:
            if os.read(self.report, 16) != protocol.PROCEED:
                os._exit(FAILED)
            self.proceeding = True

    def before_failure(self) -> None:
        """A failure after N is told only after P was received (`wire.report`)."""
        if self.ready:
            self.wait()

    def go(self) -> None:
        for self.step, step in STEPS:
            step(self)

    # The steps, in the order of STEPS.

    def seclude(self) -> None:
        if self.staged is None:
            seclude()
        if self.sandbox.oom_score_adj is not None:
            self.warn(limits.apply_oom_score(self.sandbox.oom_score_adj))

    def unshare(self) -> None:
        if "mount" not in self.sandbox.namespaces:
            # Without it, the next steps would change the host's mounts.
            raise Invalid("a sandbox cannot be made without a mount namespace of its own")
        if self.staged is not None:
            return
        # The namespaces to join are opened while /proc is the host's. They are entered only after the unshare, so
        # that no mount of this init is taken for a mount of theirs.
        others = namespaces.open_joined(self.sandbox.joined)
        without = namespaces.LATER | namespaces.BY_MONITOR
        if self.sandbox.uids:
            self.remapped, others = remapped.born(self.sandbox, others)
            without |= namespaces.OF_USER | {"user"}
        syscalls.unshare(namespaces.flags(self.sandbox.namespaces, without=without))
        namespaces.enter(others)

    def network(self) -> None:
        if "net" in self.sandbox.namespaces and self.staged is None:
            loopback.set_up()

    def tell(self) -> None:
        """Report N: from here on the daemon connects the network, and names can be served on a loopback interface that
        is up.
        """
        if not self.ready:
            os.write(self.report, protocol.READY)
            self.ready = True

    def name(self) -> None:
        if "uts" in self.sandbox.namespaces:
            if self.sandbox.hostname:
                socket.sethostname(self.sandbox.hostname)
            if self.sandbox.domainname:
                syscalls.setdomainname(self.sandbox.domainname)

    def root(self) -> None:
        host = -1 if self.staged is None else self.staged.host
        users = -1 if self.remapped is None else self.remapped.users
        self.sources = sources.of_host(self.sandbox.mounts, host, users)
        if host >= 0:
            os.close(host)
        mounts.leave_peers()
        if self.remapped is not None:
            for directory in filter(None, (self.sandbox.root.base, os.path.dirname(self.sandbox.root.upper))):
                self.remapped.show(directory)
            self.remapped.make_files()
        self.sources |= sources.made_here(self.sandbox.mounts)
        self.root_fd = mounts.mount_root(self.sandbox.root)
        if self.sandbox.root.nodev:
            mounts.make_root_nodev(self.root_fd)

    def mount(self) -> None:
        """The mounts in their order, except the view of the cgroups and mounts that might lie within it: they come
        later.
        """
        done = 0
        if self.staged is not None and self.furnished:
            stage.furnish(self.staged, self.root_fd)
            done = len(stage.MOUNTS)
        self.late = mounts.late(self.sandbox.mounts)
        for mount in self.sandbox.mounts[done:]:
            if mount not in self.late:
                self.add(mount)
        if self.sandbox.root.label:
            selinux.label_queues(self.root_fd, self.sandbox.mounts, self.sandbox.root.label)

    def add(self, mount: Mount) -> None:
        source = self.sources.get(mount, -1)
        if self.remapped is None:
            mounts.add(self.root_fd, mount, source)
            return
        make = make_file if source >= 0 and not is_directory(source) else make_directories
        try:
            self.remapped.make_place(make, self.root_fd, mount.target)
        except OSError as error:
            raise mounts.failure(mount, error, mounts.mount_words(mount, error)) from error
        mounts.add(self.root_fd, self.remapped.owned(mount), source)

    def devices(self) -> None:
        if self.sandbox.devices and not self.furnished:
            devices.add(self.root_fd, self.sandbox.devices)
            devices.add_links(self.root_fd)
        if self.sandbox.tty:
            self.terminal = devices.open_terminal(self.root_fd, self.sandbox.rows, self.sandbox.columns)

    def protect(self) -> None:
        """Where a mount that the user asked for comes late, the masks come after it, so that it does not cover them."""
        if not (self.furnished or any(mount.asked for mount in self.late)):
            self.mask()

    def mask(self) -> None:
        masks.make_readonly(self.root_fd, self.sandbox.readonly_paths)
        masks.hide(self.root_fd, self.sandbox.masked_paths)

    def directory(self) -> None:
        """Make the working directory, while the root is not read-only yet, and open it.

        The image may have named one in a bind of the host that the container's root may not enter or write to. So with
        a user namespace this is an attempt, and `directory_inside` opens it.
        """
        if self.remapped is None:
            self.cwd_fd = make_directories(self.root_fd, self.sandbox.cwd or "/")
            return
        with self.remapped.without_rights(), contextlib.suppress(PermissionError):
            os.close(make_directories(self.root_fd, self.sandbox.cwd or "/"))

    def cgroup(self) -> None:
        self.wait()
        for path in self.sandbox.cgroups:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(fd, b"0")
            os.close(fd)
        if "cgroup" in self.sandbox.namespaces:
            syscalls.unshare(syscalls.CLONE_NEWCGROUP)

    def parameters(self) -> None:
        """After PROCEED: a sysctl may concern an interface that the daemon has made."""
        if self.sandbox.sysctls:
            joined = [name for name, _, _ in self.sandbox.joined]
            as_owner = contextlib.nullcontext if self.remapped is None else self.remapped.as_root
            sysctls.apply(self.sandbox.sysctls, (*self.sandbox.namespaces, *joined), as_owner)

    def mount_late(self) -> None:
        for mount in self.late:
            if mount.kind == "cgroup":
                own = "cgroup" in self.sandbox.namespaces
                view.show(self.root_fd, mount, self.sandbox.cgroups, own)
            else:
                self.add(mount)
        if any(mount.asked for mount in self.late):
            self.mask()

    def hooks(self) -> None:
        if self.sandbox.hooks:
            hooks.run(self.sandbox, hooks.BEFORE_PIVOT)

    def pivot(self) -> None:
        if self.sandbox.root.readonly:
            mounts.make_root_readonly(self.root_fd)
        mounts.enter(self.root_fd)
        if self.remapped is None:
            os.fchdir(self.cwd_fd)

    def control(self) -> None:
        if self.sandbox.tty:
            devices.control(self.terminal[1])

    def directory_inside(self) -> None:
        """Enter the working directory as the container's root, and in the mount namespace that is its own."""
        if self.remapped is not None:
            root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            os.fchdir(make_directories(root, self.sandbox.cwd or "/"))

    def label_inside(self) -> None:
        """Ask for the profile and the label of process 1. Its /proc may be the client's by now."""
        self.label(outside=False)

    def last_hooks(self) -> None:
        if self.sandbox.hooks:
            hooks.run(self.sandbox, hooks.BEFORE_COMMAND)


STEPS: tuple[tuple[str, Callable[[_Init], None]], ...] = (
    ("seclude", _Init.seclude),
    ("namespaces", _Init.unshare),
    ("network", _Init.network),
    ("namespaces", _Init.tell),
    ("hostname", _Init.name),
    ("root", _Init.root),
    ("mounts", _Init.mount),
    ("devices", _Init.devices),
    ("protect", _Init.protect),
    ("user", _Init.user),
    ("directory", _Init.directory),
    ("cgroup", _Init.cgroup),
    ("network", _Init.parameters),
    ("mounts", _Init.mount_late),
    ("hooks", _Init.hooks),
    ("pivot", _Init.pivot),
    ("streams", _Init.control),
    ("streams", _Init.streams),
    ("limits", _Init.limits),
    ("privileges", _Init.label_inside),
    ("privileges", _Init.enter_users),
    ("directory", _Init.directory_inside),
    ("privileges", _Init.privileges),
    ("hooks", _Init.last_hooks),
    ("exec", _Init.execute),
)
"""Every step, in order: its name in a failure, and what it does."""


def prepare(place: str) -> stage.Stage:
    """Do what can be done before the Sandbox is known, in an init forked ahead of time, to make `run` shorter.

    place: a host directory on which the stage is mounted, in this process's own mount namespace. No other process sees
        the stage there, but this process no longer sees what is in that directory: it must be an empty one

    The caller passes the result to `run` when `stage.suits(sandbox)`, and uses another init otherwise. Raises
    SystemFailure, OSError: such an init is of no use and should exit.
    """
    seclude()
    host = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    syscalls.unshare(namespaces.flags(stage.NAMESPACES, without=namespaces.LATER | namespaces.BY_MONITOR))
    mounts.follow_peers()
    loopback.set_up()
    return stage.build(place, host)


def run(sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int, staged: stage.Stage | None = None) -> None:
    """Build the sandbox around this process and execute its command.

    stdio: the descriptors to become 0, 1 and 2; None with `sandbox.tty`
    report: this end of the socket of `wire.report`, close-on-exec. The caller has closed its copy of the other end,
        since init would not see the monitor's death otherwise
    staged: what `prepare` returned, in this process, for a sandbox that suits; the caller has reported READY after that

    The caller is already in the new PID namespace, if there is one: it is the first child of the process that made it.
    """
    try:
        if staged is not None:
            close_on_exec()  # descriptors that came after `prepare`
        _Init(sandbox, stdio, report, staged).run()
    finally:
        # Whatever happened, this process must not go on as a second monitor.
        os._exit(FAILED)
