"""From fork to execve: run one more process in a container that runs already (exec).

Two processes run this, one after the other, and neither returns. The joiner is a child of the monitor on the host. It
enters the container's cgroups and namespaces, and becomes what its process is to be: user, capabilities, filter. Only
then it forks, for a PID namespace is entered by children alone, and tells the monitor who was born. So the first moment
in which anybody in the container can see, or trace, the new process, there is nothing to be had from it (CVE-2016-9962):
its root and directory are inside, its rights the container's, and it holds no descriptor that leads out (CVE-2024-21626).
The newborn has only its terminal to take, its command to find, and execve.

Everything is imported and bound here at import time: after the fork each object built is a page copied.
"""

import errno
import os
import select
from collections.abc import Callable
from typing import NoReturn

from engine.errors import Conflict
from engine.kernel import syscalls
from engine.kernel.beneath import open_beneath
from engine.process import FAILED, Process, close_all_but, seclude
from engine.sandbox import command, devices, limits, mounts
from engine.sandbox.namespaces import NAMESPACES
from engine.sandbox.spec import Sandbox
from engine.wire import report as protocol

_JOINED = ("mount", "pid", "uts", "ipc", "net", "cgroup")
_FLAGS = sum(NAMESPACES[name].flag for name in _JOINED)
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class _Join(Process):
    """One run. Of the sandbox what concerns a process is looked at, and nothing else: not root, mounts, devices."""

    def __init__(
        self, sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int, pidfd: int, pid: int, prepared: bool
    ) -> None:
        super().__init__(sandbox, stdio, report)
        self.pidfd = pidfd
        self.pid = pid
        self.prepared = prepared

    def seclude(self) -> None:
        if not self.prepared:
            seclude()
        close_all_but((self.report, self.pidfd, *(self.stdio or ())))
        if self.sandbox.oom_score_adj is not None:
            self.warn(limits.apply_oom_score(self.sandbox.oom_score_adj))

    def cgroup(self) -> None:
        for path in self.sandbox.cgroups:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(fd, b"0")
            os.close(fd)

    def enter(self) -> None:
        """All of the container's namespaces at once, its own and those it shares; the PID namespace is the child's."""
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

    def _enter_one_by_one(self) -> None:
        """For a kernel before 5.8, whose setns(2) takes no pidfd."""
        links = [os.open(f"/proc/{self.pid}/ns/{NAMESPACES[name].link}", os.O_RDONLY | os.O_CLOEXEC) for name in _JOINED]
        # Process 1 still lives, so its number was its own all the time.
        if select.select([self.pidfd], [], [], 0)[0]:
            raise Conflict("the container is not running")
        for link in links[1:] + links[:1]:  # the mounts last: with them /proc is another
            syscalls.setns(link, 0)
            os.close(link)

    def terminal_(self) -> None:
        if self.sandbox.tty:
            self.terminal = devices.open_terminal(
                self.root_fd, self.sandbox.rows, self.sandbox.columns, console=False
            )

    def directory(self) -> None:
        """Found beneath the root, without magic links, and seen to be inside; unlike a start, an exec makes none."""
        cwd = self.sandbox.cwd or "/"
        try:
            place = open_beneath(self.root_fd, cwd, _PLACE)
            os.fchdir(place)
            os.close(place)
            os.getcwd()  # fails for what cannot be reached from the root
        except OSError as error:
            raise command.Refusal(
                error.errno or 0,
                f'chdir to cwd ("{cwd}") set in config.json failed: {mounts.words(error)}',
                command.NOT_FOUND if error.errno == errno.ENOENT else command.NOT_RUNNABLE,
            ) from error

    def fork(self) -> None:
        """The joiner ends here, the newborn goes on."""
        pid = os.fork()
        if pid:
            os.write(self.report, protocol.encode_birth(pid))
            os._exit(0)

    def control(self) -> None:
        os.setsid()
        if self.sandbox.tty:
            devices.control(0)


STEPS: tuple[tuple[str, Callable[[_Join], None]], ...] = (
    ("seclude", _Join.seclude),
    ("cgroup", _Join.cgroup),
    ("namespaces", _Join.enter),
    ("user", _Join.user),
    ("directory", _Join.directory),
    ("terminal", _Join.terminal_),
    ("streams", _Join.streams),
    ("limits", _Join.limits),
    ("privileges", _Join.privileges),
    ("fork", _Join.fork),
    ("control", _Join.control),
    ("exec", _Join.execute),
)
"""Every step, in order: its name in a failure, and what it does."""


def prepare() -> None:
    """Do what can be done in a joiner that was forked before anyone has asked for it."""
    seclude()


def run(
    sandbox: Sandbox,
    stdio: tuple[int, int, int] | None,
    report: int,
    pidfd: int,
    pid: int,
    prepared: bool = False,
) -> NoReturn:
    """Enter the container of process 1 `pid`, which is `pidfd`, and execute the sandbox's command there.

    stdio, report: as `init.run` takes them; prepared: `prepare` was called in this process
    """
    try:
        _Join(sandbox, stdio, report, pidfd, pid, prepared).run(STEPS)
    finally:
        # Whatever happened, this process must not go on as a second monitor.
        os._exit(FAILED)
