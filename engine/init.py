"""From fork to execve: turn the child of the monitor into a container's process 1.

Runs in that child only, single-threaded, and never returns: it ends in execve or os._exit. The steps stand in one
table, in order; each is told to the monitor by name if it fails (see `wire.report`). What does not depend on the
daemon's part (cgroups, network) is done while the daemon does it, before `PROCEED` is awaited. It never touches the
host's mounts, which are private copies by then, and trusts nothing in the image's files.

Everything is imported and bound here at import time: after the fork each object built is a page copied.
"""

import errno
import os
import signal
import socket
import stat
from collections.abc import Callable
from typing import NoReturn

from engine.errors import EngineError, Invalid
from engine.kernel import syscalls
from engine.kernel.beneath import make_directories
from engine.kernel.netlink import route
from engine.kernel.netlink.socket import Netlink
from engine.sandbox import (
    capabilities,
    cgroup_view,
    command,
    devices,
    limits,
    masks,
    mounts,
    namespaces,
    stage,
    sysctls,
    users,
)
from engine.sandbox.spec import Mount, Sandbox
from engine.wire import report as protocol

_FAILED = 125
_SIGNALS = tuple(signal.valid_signals())
# The C library's own, ignored in whatever posix_spawn(3) has started and in all that comes of it.
_INTERNAL_SIGNALS = (32, 33)
_LAST_CAPABILITY = capabilities.last_known()
_NULL = os.makedev(1, 3)


class _Init:
    """One run: what the steps hand to each other. Descriptors end with the process."""

    def __init__(
        self, sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int, staged: stage.Stage | None
    ) -> None:
        self.sandbox = sandbox
        self.stdio = stdio
        self.report = report
        self.staged = staged
        self.furnished = staged is not None and stage.furnishes(sandbox)
        self.step = ""
        self.ready = False
        self.proceeding = False
        self.root_fd = -1
        self.cwd_fd = -1
        self.terminal = (-1, -1)
        self.sources: dict[Mount, int] = {}
        self.late: tuple[Mount, ...] = ()
        self.identity = users.Identity(0, 0, (0,), "/")

    def warn(self, texts: list[str]) -> None:
        for text in texts:
            os.write(self.report, protocol.encode_warning(text))

    def wait(self) -> None:
        """Wait for PROCEED, once; the end of file says that nobody wants this container any more."""
        if not self.proceeding:
            if os.read(self.report, 16) != protocol.PROCEED:
                os._exit(_FAILED)
            self.proceeding = True

    # The steps, in the order of STEPS.

    def seclude(self) -> None:
        if self.staged is None:
            _seclude()
        if self.sandbox.oom_score_adj is not None:
            self.warn(limits.apply_oom_score(self.sandbox.oom_score_adj))

    def unshare(self) -> None:
        flags = namespaces.flags(self.sandbox.namespaces, without=namespaces.LATER | namespaces.BY_MONITOR)
        if not flags & syscalls.CLONE_NEWNS:
            # What comes next would be done to the host.
            raise Invalid("a sandbox cannot be made without a mount namespace of its own")
        if self.staged is None:
            syscalls.unshare(flags)
        os.write(self.report, protocol.READY)
        self.ready = True

    def name(self) -> None:
        if "uts" in self.sandbox.namespaces:
            if self.sandbox.hostname:
                socket.sethostname(self.sandbox.hostname)
            if self.sandbox.domainname:
                syscalls.setdomainname(self.sandbox.domainname)

    def network(self) -> None:
        if "net" in self.sandbox.namespaces and self.staged is None:
            _loopback()
        sysctls.apply(self.sandbox.sysctls, self.sandbox.namespaces)

    def root(self) -> None:
        if self.staged is None:
            self.sources = mounts.open_sources(self.sandbox.mounts)
        mounts.leave_peers()
        self.root_fd = mounts.mount_root(self.sandbox.root)

    def mount(self) -> None:
        """The mounts in their order, but for the view of the cgroups and what might lie in it: those come later."""
        done = 0
        if self.staged is not None and self.furnished:
            stage.furnish(self.staged, self.root_fd)
            done = len(stage.MOUNTS)
        self.late = _late(self.sandbox.mounts)
        for mount in self.sandbox.mounts[done:]:
            if mount not in self.late:
                mounts.add(self.root_fd, mount, self.sources.get(mount, -1))

    def devices(self) -> None:
        if self.sandbox.devices and not self.furnished:
            devices.add(self.root_fd, self.sandbox.devices)
            devices.add_links(self.root_fd)
        if self.sandbox.tty:
            self.terminal = devices.open_terminal(self.root_fd, self.sandbox.rows, self.sandbox.columns)

    def protect(self) -> None:
        if not self.furnished:
            masks.make_readonly(self.root_fd, self.sandbox.readonly_paths)
            masks.hide(self.root_fd, self.sandbox.masked_paths)

    def user(self) -> None:
        self.identity = users.identify(self.root_fd, self.sandbox.user, self.sandbox.groups)

    def directory(self) -> None:
        self.cwd_fd = make_directories(self.root_fd, self.sandbox.cwd or "/")

    def cgroup(self) -> None:
        self.wait()
        for path in self.sandbox.cgroups:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(fd, b"0")
            os.close(fd)
        if "cgroup" in self.sandbox.namespaces:
            syscalls.unshare(syscalls.CLONE_NEWCGROUP)

    def mount_late(self) -> None:
        for mount in self.late:
            if mount.kind == "cgroup":
                own = "cgroup" in self.sandbox.namespaces
                cgroup_view.show(self.root_fd, mount, self.sandbox.cgroups, own)
            else:
                mounts.add(self.root_fd, mount, self.sources.get(mount, -1))

    def pivot(self) -> None:
        if self.sandbox.root.readonly:
            mounts.make_root_readonly(self.root_fd)
        mounts.enter(self.root_fd)
        os.fchdir(self.cwd_fd)

    def streams(self) -> None:
        """0, 1 and 2: the terminal, or what the monitor gave; owned by the user, who may want to open them by name."""
        master, slave = self.terminal
        if self.sandbox.tty:
            devices.control(slave)
            with socket.socket(fileno=os.dup(self.report)) as channel:
                socket.send_fds(channel, [protocol.TERMINAL], [master])
            _place((slave, slave, slave))
        else:
            _place(self.stdio or (0, 1, 2))
        for fd in (0, 1, 2):
            _adopt(fd, self.identity.uid)

    def limits(self) -> None:
        self.warn(limits.apply_rlimits(self.sandbox.rlimits))

    def privileges(self) -> None:
        """In runc's order. Without no_new_privs only CAP_SYS_ADMIN may install a filter: then it goes in first."""
        _, permitted, _ = syscalls.capget()
        granted = capabilities.mask(self.sandbox.capabilities)
        missing = granted & ~permitted
        if missing:
            self.warn([f"this host does not have the capabilities {', '.join(capabilities.names(missing))}"])
        keep = granted & permitted
        capabilities.limit_bounding(keep, _LAST_CAPABILITY)
        if self.sandbox.seccomp and not self.sandbox.no_new_privileges:
            syscalls.seccomp_load(self.sandbox.seccomp)
        if self.identity.uid:
            syscalls.prctl(syscalls.PR_SET_KEEPCAPS, 1)
        os.setgroups(self.identity.groups)
        os.setresgid(self.identity.gid, self.identity.gid, self.identity.gid)
        os.setresuid(self.identity.uid, self.identity.uid, self.identity.uid)
        capabilities.set_own(keep)
        if self.sandbox.no_new_privileges:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)

    def execute(self) -> NoReturn:
        environment = dict(entry.partition("=")[::2] for entry in self.sandbox.env if "=" in entry)
        environment.setdefault("HOME", self.identity.home)
        name = self.sandbox.argv[0]
        path = command.find(name, environment.get("PATH", ""), self.root_fd)
        arguments = [_encoded(text) for text in self.sandbox.argv]
        variables = {_encoded(key): _encoded(value) for key, value in environment.items()}
        os.umask(self.sandbox.umask)
        for number in _SIGNALS:
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        for number in _INTERNAL_SIGNALS:
            syscalls.default_action(number)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if self.sandbox.seccomp and self.sandbox.no_new_privileges:
            syscalls.seccomp_load(self.sandbox.seccomp)
        try:
            os.execve(_encoded(path), arguments, variables)
        except OSError as error:
            raise command.refusal_of_execve(path, error) from error


STEPS: tuple[tuple[str, Callable[[_Init], None]], ...] = (
    ("seclude", _Init.seclude),
    ("namespaces", _Init.unshare),
    ("hostname", _Init.name),
    ("network", _Init.network),
    ("root", _Init.root),
    ("mounts", _Init.mount),
    ("devices", _Init.devices),
    ("protect", _Init.protect),
    ("user", _Init.user),
    ("directory", _Init.directory),
    ("cgroup", _Init.cgroup),
    ("mounts", _Init.mount_late),
    ("pivot", _Init.pivot),
    ("streams", _Init.streams),
    ("limits", _Init.limits),
    ("privileges", _Init.privileges),
    ("exec", _Init.execute),
)
"""Every step, in order: its name in a failure, and what it does."""


def prepare(place: str) -> stage.Stage:
    """Do what can be done before the Sandbox is known, in an init forked ahead of time, to make `run` shorter.

    place: a host directory to mount the stage on, in this process's own mount namespace. Nobody else sees it there, but
        this process no longer sees what is in that directory: it is an empty one

    The caller hands the result to `run` when `stage.suits(sandbox)`, and uses another init otherwise. Raises
    SystemFailure, OSError: such an init is of no use and should exit.
    """
    _seclude()
    syscalls.unshare(namespaces.flags(stage.NAMESPACES, without=namespaces.LATER | namespaces.BY_MONITOR))
    mounts.follow_peers()
    _loopback()
    return stage.build(place)


def run(
    sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int, staged: stage.Stage | None = None
) -> NoReturn:
    """Build the sandbox around this process and execute its command.

    stdio: the descriptors to become 0, 1 and 2; None with `sandbox.tty`
    report: this end of the socket of `wire.report`, close-on-exec; the caller has closed its copy of the other end,
        else init would not see the monitor's death
    staged: what `prepare` returned, in this process, for a sandbox that suits

    The caller is already in the new PID namespace, if there is one: the first child of the process that made it.
    """
    try:
        if staged is not None:
            _close_on_exec()  # what came since then
        init = _Init(sandbox, stdio, report, staged)
        try:
            for init.step, step in STEPS:
                step(init)
        except command.Refusal as refusal:
            _fail(init, refusal.errno, str(refusal), refusal.status)
        except EngineError as error:
            _fail(init, getattr(error.__cause__, "errno", 0) or 0, str(error), _FAILED)
        except OSError as error:
            name = f" {error.filename}" if error.filename else ""
            _fail(init, error.errno or 0, f"{init.step}:{name} {mounts.words(error)}", _FAILED)
        except Exception as error:  # a mistake of ours: there is nobody above to show it, so the client reads it
            _fail(init, 0, f"{init.step}: {type(error).__name__}: {error}", _FAILED)
    finally:
        # Whatever happened, this process must not go on as a second monitor.
        os._exit(_FAILED)


def _late(wanted: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """The mounts that have to wait until the cgroups are entered: their view, and from there on those near it."""
    at = next((at for at, mount in enumerate(wanted) if mount.kind == "cgroup"), len(wanted))
    top = wanted[at].target.split("/")[1:2] if at < len(wanted) else []
    return tuple(mount for mount in wanted[at:] if mount.target.split("/")[1:2] == top)


def _fail(init: _Init, number: int, text: str, status: int) -> NoReturn:
    if init.ready:
        init.wait()
    os.write(init.report, protocol.encode_failure(protocol.Failure(init.step, number, text, status)))
    os._exit(status)


def _seclude() -> None:
    """Be nobody's: no inherited descriptor survives execve, no process may look into this one, own session."""
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    _close_on_exec()
    os.setsid()
    os.umask(0)
    try:
        syscalls.join_session_keyring()
    except OSError as error:
        # No keyrings in this kernel, a quota that is used up, a profile around the engine: then it keeps ours,
        # which the default seccomp profile keeps from it.
        if error.errno not in (errno.ENOSYS, errno.EDQUOT, errno.EPERM):
            raise


def _loopback() -> None:
    with Netlink() as netlink:
        route.set_up(netlink, route.LOOPBACK)


def _close_on_exec() -> None:
    try:
        syscalls.close_range(3, 0xFFFFFFFF, syscalls.CLOSE_RANGE_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL):  # before Linux 5.9, and before 5.11
            raise
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                _forget_if_open(int(name))


def _forget_if_open(fd: int) -> None:
    try:
        os.set_inheritable(fd, False)
    except OSError as error:
        if error.errno != errno.EBADF:  # the descriptor that listed the directory
            raise


def _place(wanted: tuple[int, int, int]) -> None:
    """Make these descriptors 0, 1 and 2, whatever order and numbers they come in."""
    copies = [os.dup(fd) if fd < 3 else fd for fd in wanted]
    for target, fd in enumerate(copies):
        os.dup2(fd, target)


def _adopt(fd: int, uid: int) -> None:
    """Give the stream to the user; /dev/null becomes the container's own, as the host's is not there to be held."""
    found = os.fstat(fd)
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL:
        try:
            own = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # a sandbox without devices
            return
        os.dup2(own, fd)
        os.close(own)
    elif found.st_uid != uid:
        try:
            os.fchown(fd, uid, -1)
        except OSError as error:
            # Sockets, and files on file systems without owners or read-only ones: runc passes over these too.
            if error.errno not in (errno.EINVAL, errno.EPERM, errno.EROFS):
                raise


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
