"""The steps that process 1 of a container (`init`) and an exec's process (`join`) share: user, streams, privileges,
execve.

Runs in a forked child only, single-threaded, which ends in execve or os._exit. It also has the state that steps hand to
each other, and tells the monitor of a step that fails (`wire.report`). The order of the steps is not decided here.
Nothing in the image's files is trusted.

Everything is imported and bound here at import time: after the fork each object built is a page copied.
"""

import contextlib
import errno
import os
import signal
import socket
import stat
from abc import abstractmethod
from collections.abc import Callable

from engine.errors import EngineError, SystemFailure
from engine.kernel import syscalls, userns
from engine.kernel.descriptors import close_on_exec
from engine.late import TYPE_CHECKING
from engine.sandbox import apparmor, capabilities, command, limits, mounts, selinux, users
from engine.sandbox.spec import Sandbox
from engine.wire import report as protocol

if TYPE_CHECKING:
    from engine.sandbox.remapped import Remapped

FAILED = 125
_SIGNALS = tuple(signal.valid_signals())
# The C library's own signals. Whatever posix_spawn(3) has started ignores them, and so do its descendants.
_INTERNAL_SIGNALS = (32, 33)
_LAST_CAPABILITY = capabilities.last_known()
_NULL = os.makedev(1, 3)
# Asked before any container's /proc is seen, which could answer otherwise.
_MAY_SET_GROUPS = userns.may_set_groups()


class Process:
    """One run of the steps, and the state that steps hand to each other. Its descriptors are closed when the process
    ends.

    stdio: the descriptors to become 0, 1 and 2; None with a terminal; report: the socket of `wire.report`
    remapped: the user namespace that the process is to enter; None for the host's
    """

    # Whether the process enters it in a mount namespace that belongs to it, which process 1 is to have.
    mounts_alone = False
    # Whether /proc is the host's until the command is executed; a joiner's is that of the container.
    own_proc = True

    def __init__(self, sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int) -> None:
        self.sandbox = sandbox
        self.stdio = stdio
        self.report = report
        self.step = ""
        self.root_fd = -1
        self.cwd_fd = -1
        self.terminal = (-1, -1)
        self.identity = users.Identity(0, 0, (0,), "/")
        self.remapped: Remapped | None = None

    def warn(self, texts: list[str]) -> None:
        for text in texts:
            os.write(self.report, protocol.encode_warning(text))

    def before_failure(self) -> None:
        """Do what must come before a failure is told; by default nothing."""

    @abstractmethod
    def go(self) -> None:
        """Do the steps in their order; `step` names the one that is being done."""

    def run(self) -> None:
        """Do the steps. The first step that fails is told to the monitor, and the process ends."""
        try:
            self.go()
        except command.Refusal as refusal:
            self._fail(refusal.errno, str(refusal), refusal.status)
        except EngineError as error:
            self._fail(getattr(error.__cause__, "errno", 0) or 0, str(error), FAILED)
        except OSError as error:
            name = f" {error.filename}" if error.filename else ""
            self._fail(error.errno or 0, f"{self.step}:{name} {mounts.words(error)}", FAILED)
        # A mistake of the engine: no caller above could show it, so the client reads it.
        except Exception as error:
            self._fail(0, f"{self.step}: {type(error).__name__}: {error}", FAILED)

    def _fail(self, number: int, text: str, status: int) -> None:
        self.before_failure()
        self.tell_failure(protocol.Failure(self.step, number, text, status))
        os._exit(status)

    def tell_failure(self, failure: protocol.Failure) -> None:
        os.write(self.report, protocol.encode_failure(failure))

    # Steps that both kinds of process have.

    def user(self) -> None:
        self.identity = users.identify(self.root_fd, self.sandbox.user, self.sandbox.groups, self.own_proc)

    def streams(self) -> None:
        """Make 0, 1 and 2 the terminal, or the descriptors that the monitor gave.

        They get the container's user as owner, because its programs may open them by name.
        """
        master, slave = self.terminal
        if self.sandbox.tty:
            with socket.socket(fileno=os.dup(self.report)) as channel:
                socket.send_fds(channel, [protocol.TERMINAL], [master])
            place((slave, slave, slave))
        else:
            place(self.stdio or (0, 1, 2))
        uid = self.remapped.ids.outside(self.identity.uid, 0)[0] if self.remapped else self.identity.uid
        for fd in (0, 1, 2):
            _adopt(fd, uid)

    def limits(self) -> None:
        self.warn(limits.apply_rlimits(each for each in self.sandbox.rlimits if not limits.hinders(each)))

    def label(self, *, outside: bool) -> None:
        """Take the container's AppArmor profile and SELinux label at the next execve. outside: as for `lsm.write`"""
        if self.sandbox.apparmor:
            apparmor.change_on_exec(self.sandbox.apparmor, outside=outside)
        if self.sandbox.label:
            selinux.change_on_exec(self.sandbox.label, outside=outside)

    def enter_users(self) -> None:
        """Enter the container's user namespace, if it has one of its own: the host's rights end here."""
        if self.remapped is not None:
            self.remapped.enter(alone=self.mounts_alone)

    def privileges(self) -> None:
        """Take the rights of the container, in runc's order.

        Without no_new_privs only CAP_SYS_ADMIN may install a seccomp filter: then the filter is installed first.
        """
        keep = self.granted()
        capabilities.limit_bounding(keep, _LAST_CAPABILITY)
        if self.sandbox.seccomp and not self.sandbox.no_new_privileges:
            syscalls.seccomp_load(self.sandbox.seccomp, self.sandbox.seccomp_flags)
        if self.identity.uid:
            syscalls.prctl(syscalls.PR_SET_KEEPCAPS, 1)
        if _MAY_SET_GROUPS:
            _become("groups", os.setgroups, self.identity.groups)
        _become("gid", os.setresgid, *[self.identity.gid] * 3)
        _become("uid", os.setresuid, *[self.identity.uid] * 3)
        capabilities.set_own(keep)
        if self.sandbox.no_new_privileges:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)

    def granted(self) -> int:
        """The capabilities of the container that this host has, as a mask; the monitor is told of others."""
        _, permitted, _ = syscalls.capget()
        asked = capabilities.mask(self.sandbox.capabilities)
        missing = asked & ~permitted
        if missing:
            self.warn([f"this host does not have the capabilities {', '.join(capabilities.names(missing))}"])
        return asked & permitted

    def execute(self) -> None:
        path, arguments, variables = self.command()
        self.let_go()
        try:
            os.execve(path, arguments, variables)
        except OSError as error:
            command.end_unexecuted(os.fsdecode(path), error)

    # Parts of the last step.

    def command(self, *, certain: bool = False) -> tuple[bytes, list[bytes], dict[bytes, bytes]]:
        """The path, arguments and variables for execve(2). Raises Refusal; certain: see `command.find`."""
        environment = dict(entry.partition("=")[::2] for entry in self.sandbox.env if "=" in entry)
        if not environment.get("HOME"):  # an empty one stands for the user's own too
            environment.pop("HOME", None)
            environment["HOME"] = self.identity.home
        path = command.find(self.sandbox.argv[0], environment.get("PATH", ""), self.root_fd, certain=certain)
        arguments = [_encoded(text) for text in self.sandbox.argv]
        return _encoded(path), arguments, {_encoded(key): _encoded(value) for key, value in environment.items()}

    def let_go(self) -> None:
        """Set what the command inherits; with no_new_privs the filter comes last, and then only execve may follow."""
        os.umask(self.sandbox.umask)
        limits.apply_rlimits(filter(limits.hinders, self.sandbox.rlimits))
        default_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if self.sandbox.seccomp and self.sandbox.no_new_privileges:
            syscalls.seccomp_load(self.sandbox.seccomp, self.sandbox.seccomp_flags)


def _become(kind: str, change: Callable[..., None], *numbers: int | tuple[int, ...]) -> None:
    """Take ids. Raises SystemFailure in runc's words for one that this user namespace lacks, OSError."""
    try:
        change(*numbers)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise SystemFailure(f"setup user: cannot set {kind} to unmapped user in user namespace") from error


def default_signals() -> None:
    """Give every ignored signal its default action."""
    for number in _SIGNALS:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for internal in _INTERNAL_SIGNALS:
        syscalls.default_action(internal)


def seclude() -> None:
    """Leave no way to the engine: no descriptor survives execve, no process may look into this one, a session of its
    own.
    """
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    close_on_exec()
    os.setsid()
    os.umask(0)
    try:
        syscalls.join_session_keyring()
    except OSError as error:
        # This kernel has no keyrings, or a quota is used up, or a security profile around the engine forbids it. Then
        # the process keeps the engine's keyring; the default seccomp profile keeps the command from using it.
        if error.errno not in (errno.ENOSYS, errno.EDQUOT, errno.EPERM):
            raise


def place(wanted: tuple[int, int, int]) -> None:
    """Make these descriptors 0, 1 and 2, whatever order and numbers they have."""
    copies = [os.dup(fd) if fd < 3 else fd for fd in wanted]
    for target, fd in enumerate(copies):
        os.dup2(fd, target)


def _adopt(fd: int, uid: int) -> None:
    """Make the user the owner of the stream.

    If it is the host's /dev/null, it is replaced by the container's own: the host's must not stay open in the
    container.
    """
    found = os.fstat(fd)
    if _is_null(found):
        own = _containers_null()
        os.dup2(own, fd)
        os.close(own)
    elif found.st_uid != uid:
        try:
            os.fchown(fd, uid, -1)
        except OSError as error:
            # Sockets, and files on file systems that have no owners or are read-only: runc passes over these too.
            if error.errno not in (errno.EINVAL, errno.EPERM, errno.EROFS):
                raise


def _containers_null() -> int:
    """The container's own /dev/null. Raises OSError.

    A container may have removed it, or put another file in its place, or a link to a file that its processes may not
    open: this process still may. It gets an empty file of memory then.
    """
    with contextlib.suppress(FileNotFoundError):
        place = os.open("/dev/null", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(place)
        os.close(place)
        if _is_null(found):  # opening another device can have effects
            own = os.open("/dev/null", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            if _is_null(os.fstat(own)):  # it was not replaced meanwhile
                return own
            os.close(own)
    return os.memfd_create("null")


def _is_null(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
