"""Runs one more process in a running container (exec): enters its cgroups and namespaces, drops rights, then execve.

Two processes run this, one after the other, and neither returns. The joiner is the launcher of the exec, after its
handover to the keeper, or a child of a monitor that is one process. It closes all descriptors that it does not need,
enters the container's cgroups and namespaces, and takes the user, the capabilities and the seccomp filter that the new
process is to have. Only then it makes that process, because only children enter a PID namespace. So from the first
moment in which a process in the container can see, or trace, the new process, the new process gives nothing away
(CVE-2016-9962): its root and its directory are inside the container, it has the container's rights, and it holds no
descriptor that leads out (CVE-2024-21626).

Everything is imported and bound here at import time: after the fork each object built is a page copied.
"""

import contextlib
import errno
import os
import select
from collections.abc import Callable

from engine.birth.process import FAILED, Process, default_signals, seclude
from engine.dataclass import dataclass
from engine.errors import Conflict
from engine.kernel import syscalls, variables
from engine.kernel.beneath import open_beneath
from engine.kernel.descriptors import close_all_but
from engine.late import TYPE_CHECKING, late
from engine.sandbox import capabilities, command, devices, limits, mounts, users
from engine.sandbox.cgroups import entering
from engine.sandbox.namespaces import NAMESPACES
from engine.sandbox.spec import Root, Sandbox
from engine.wire import channel
from engine.wire import report as protocol
from engine.wire.schema import Failed, Warned

if TYPE_CHECKING:  # loaded by the first exec in a container with a user namespace of its own
    from engine.sandbox import remapped
else:
    remapped = late("engine.sandbox.remapped")

_JOINED = ("mount", "pid", "uts", "ipc", "net", "cgroup")
_FLAGS = sum(NAMESPACES[name].flag for name in _JOINED)
_LONGEST = 1000
_REHEARSED = Sandbox(
    "", Root("", (), "", ""), (), ("no-such-command",), ("PATH=/bin:/sbin", "TERM=x"), capabilities=capabilities.DEFAULT
)
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


Newborn = Callable[[bytes, list[bytes], dict[bytes, bytes], bool], int]
"""Makes a child that executes this path with these arguments, variables and perhaps a terminal, and returns its pid
once it has executed, or has ended because it could not (`engine.monitor.nativeprocess` has one). It must not copy this
process; the child becomes its sibling.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A container's process 1. pidfd: closed by the run; pid: for kernels whose setns(2) takes no pidfd."""

    pidfd: int
    pid: int


class _Join(Process):
    """One run of the steps.

    Of the sandbox only what concerns a single process is used: not its root, mounts or devices.
    """

    own_proc = False

    def __init__(
        self,
        sandbox: Sandbox,
        stdio: tuple[int, int, int] | None,
        report: int,
        target: Target,
        newborn: Newborn | None,
        prepared: bool,
        held: tuple[int, ...] = (),
    ) -> None:
        super().__init__(sandbox, stdio, report)
        self.held = held
        self.pidfd, self.pid = target.pidfd, target.pid
        self.newborn = newborn
        self.prepared = prepared

    def warn(self, texts: list[str]) -> None:
        for text in texts:
            os.write(self.report, protocol.WARNED + channel.datagram(Warned(text)))

    def tell_failure(self, failure: protocol.Failure) -> None:
        failed = Failed(failure.step, failure.errno, failure.text[:_LONGEST], failure.status)
        os.write(self.report, protocol.FAILED + channel.datagram(failed))

    def go(self) -> None:
        for self.step, step in STEPS:
            step(self)

    # The steps, in the order of STEPS.

    def seclude(self) -> None:
        if not self.prepared:
            seclude()
        close_all_but((self.report, self.pidfd, *self.held, *(self.stdio or ())))
        if self.sandbox.oom_score_adj is not None:
            self.warn(limits.apply_oom_score(self.sandbox.oom_score_adj))

    def cgroup(self) -> None:
        for path in self.sandbox.cgroups:
            entering.enter(path, self.pid)

    def label_ahead(self) -> None:
        """Ask for the profile and the label of the new process, while /proc is the engine's."""
        self.label(outside=True)

    def enter(self) -> None:
        """Enter all namespaces of the container at once, its own and those that it shares.

        The PID namespace is entered by children only, and the user namespace with the privileges.
        """
        self.open_users()
        try:
            syscalls.setns(self.pidfd, _FLAGS)
        except OSError as error:
            if error.errno == errno.ESRCH:
                raise Conflict("the container is not running") from error
            if error.errno not in (errno.EINVAL, errno.EBADF):
                raise
            self._enter_one_by_one()
        os.close(self.pidfd)
        self.root_fd = os.open("/", _PLACE)

    def open_users(self) -> None:
        """Open the user namespace of the container, if it has one of its own, and be it from an earlier daemon."""
        if not self.sandbox.uids:
            return
        try:
            self.remapped = remapped.of_process(self.pid, self.sandbox)
        except (FileNotFoundError, ProcessLookupError):
            pass
        # While process 1 lives, no other process has its number.
        if self.remapped is None or select.select([self.pidfd], [], [], 0)[0]:
            raise Conflict("the container is not running")

    def _enter_one_by_one(self) -> None:
        """For a kernel before 5.8, whose setns(2) takes no pidfd."""
        links = [
            os.open(f"/proc/{self.pid}/ns/{NAMESPACES[name].link}", os.O_RDONLY | os.O_CLOEXEC) for name in _JOINED
        ]
        # Process 1 still lives, so no other process can have had its number meanwhile.
        if select.select([self.pidfd], [], [], 0)[0]:
            raise Conflict("the container is not running")
        for link in links[1:] + links[:1]:  # the mount namespace last: after it /proc is the container's
            syscalls.setns(link, 0)
            os.close(link)

    def terminal_(self) -> None:
        if self.sandbox.tty:
            self.terminal = devices.open_terminal(self.root_fd, self.sandbox.rows, self.sandbox.columns, console=False)

    def directory(self) -> None:
        """Change to the working directory, where the host's rights are the container's."""
        if self.remapped is None:
            self.change_directory()

    def directory_inside(self) -> None:
        """Change to the working directory as root of the container's user namespace, who may not enter each."""
        if self.remapped is not None:
            self.change_directory()

    def change_directory(self) -> None:
        """Change to the working directory, which is opened beneath the root and without magic links.

        It must lie inside the root. Unlike a start, an exec makes no missing directory.
        """
        cwd = self.sandbox.cwd or "/"
        try:
            place = open_beneath(self.root_fd, cwd, _PLACE)
            os.fchdir(place)
            os.close(place)
            os.getcwd()  # fails for a directory that cannot be reached from the root
        except OSError as error:
            raise command.Refusal(
                error.errno or 0,
                f'chdir to cwd ("{cwd}") set in config.json failed: {mounts.words(error)}',
                command.NOT_FOUND if error.errno == errno.ENOENT else command.NOT_RUNNABLE,
            ) from error

    def bear(self) -> None:
        """Make the new process without a fork that copies all this memory: the child executes its command at once.

        The joiner sees another /proc/self than its child, so it goes this way only with a command that it finds without
        a doubt; the child itself looks for any other command, and finds what is wrong with it. The child shares the
        joiner's memory, and the joiner is in the host's PID namespace: where a process may trace the child, this way is
        not taken (see `wire.schema.Exec`).
        """
        if self.newborn is None:
            return
        try:
            path, arguments, variables = self.command(certain=True)
        except command.Refusal:
            return
        self.let_go()
        pid = self.newborn(path, arguments, variables, self.sandbox.tty)
        os.write(self.report, protocol.encode_birth(pid, executed=True))
        os._exit(0)

    def fork(self) -> None:
        """Fork the new process, which goes on with the steps; the joiner ends here."""
        os.write(self.report, protocol.encode_birth(0, executed=False))
        variables.forget()
        pid = os.fork()
        if pid:
            os.write(self.report, protocol.encode_birth(pid, executed=False))
            os._exit(0)

    def control(self) -> None:
        os.setsid()
        if self.sandbox.tty:
            devices.control(0)


STEPS: tuple[tuple[str, Callable[[_Join], None]], ...] = (
    ("seclude", _Join.seclude),
    ("cgroup", _Join.cgroup),
    ("privileges", _Join.label_ahead),
    ("namespaces", _Join.enter),
    ("user", _Join.user),
    ("directory", _Join.directory),
    ("terminal", _Join.terminal_),
    ("streams", _Join.streams),
    ("limits", _Join.limits),
    ("privileges", _Join.enter_users),
    ("directory", _Join.directory_inside),
    ("privileges", _Join.privileges),
    ("exec", _Join.bear),
    ("fork", _Join.fork),
    ("control", _Join.control),
    ("exec", _Join.execute),
)
"""Every step, in order: its name in a failure, and what it does."""


def prepare() -> None:
    """Do what can be done in a joiner that was forked before a request has come."""
    seclude()
    default_signals()


def rehearse() -> None:
    """Run code of a later exec in a way that changes nothing.

    A page is copied when it is touched first; after this no exec waits for that copy.
    """
    users.resolve("0:0", ("0",), "root:x:0:0:root:/root:/bin/sh\n", "root:x:0:root\n")
    root = os.open("/", _PLACE)
    os.close(open_beneath(root, "/", _PLACE))
    os.getcwd()
    with contextlib.suppress(command.Refusal):
        rehearsed = _Join(_REHEARSED, None, -1, Target(-1, 0), None, True)
        rehearsed.root_fd = root
        rehearsed.command()
    os.close(root)
    syscalls.capget()
    capabilities.mask(_REHEARSED.capabilities)


def run(
    sandbox: Sandbox,
    stdio: tuple[int, int, int] | None,
    report: int,
    target: Target,
    newborn: Newborn | None = None,
    prepared: bool = False,
    held: tuple[int, ...] = (),
) -> None:
    """Enter the container of this process 1, and execute the sandbox's command there.

    stdio, report: the same as for `init.run`; newborn: see `Newborn`, None to fork; prepared: `prepare` was called in
        this process; held: descriptors that stay open until this process ends
    """
    try:
        _Join(sandbox, stdio, report, target, newborn, prepared, held).run()
    finally:
        # Whatever happened, this process must not go on as a second monitor.
        os._exit(FAILED)
