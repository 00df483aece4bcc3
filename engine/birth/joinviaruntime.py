"""Has another OCI runtime run one more process in a container of its own (exec), where no other program could.

Runs in an exec's joiner, as `birth.join` does, for containers that have a kernel of their own: the joiner calls the
runtime's `exec`, which stays for as long as the process runs, passes the streams on, and ends with its exit code. So to
the exec's monitor that program is the process. The joiner waits until the process runs, and tells why it does not.
"""

import os
import select
import signal
import socket
import termios
from collections.abc import Callable

from engine.birth.ociprogram import Program
from engine.birth.process import FAILED, Process, seclude
from engine.errors import SystemFailure
from engine.kernel.descriptors import close_all_but
from engine.sandbox.spec import Sandbox
from engine.wire import channel
from engine.wire import report as protocol
from engine.wire.schema import Failed

_LONGEST = 1000
_LOOK_MS = 5
_SECONDS = 30.0
EXEC = "exec."
"""Begins the name of a file of the bundle: what pid the process has inside that the program of this pid runs."""


class _JoinViaRuntime(Process):
    """One run of the steps. Of the sandbox only `runtime`, `config` and the terminal are used."""

    def __init__(
        self, sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int, prepared: bool, held: tuple[int, ...]
    ) -> None:
        super().__init__(sandbox, stdio, report)
        self.prepared, self.held = prepared, held
        own = f"joiner.{os.getpid()}"
        self.program = Program(sandbox.runtime, f"{own}.log")
        self.asked, self.log, self.inside = (self.program.path(f"{own}.{kind}") for kind in ("json", "log", "pid"))

    def tell_failure(self, failure: protocol.Failure) -> None:
        failed = Failed(failure.step, failure.errno, failure.text[:_LONGEST], failure.status)
        os.write(self.report, protocol.FAILED + channel.datagram(failed))

    def before_failure(self) -> None:
        self.clear()

    def go(self) -> None:
        for self.step, step in STEPS:
            step(self)
        os._exit(0)

    # The steps, in the order of STEPS.

    def seclude(self) -> None:
        if not self.prepared:
            seclude()
        close_all_but((self.report, *self.held, *(self.stdio or ())))

    def describe(self) -> None:
        with open(self.asked, "w") as file:
            file.write(self.sandbox.config)

    def terminal_(self) -> None:
        """Make a terminal of the host, whose end the runtime takes for the process's."""
        if self.sandbox.tty:
            master, slave = os.openpty()
            if self.sandbox.rows or self.sandbox.columns:
                termios.tcsetwinsize(slave, (self.sandbox.rows, self.sandbox.columns))
            self.terminal, self.stdio = (master, slave), (slave, slave, slave)

    def execute(self) -> None:
        words = ("exec", "--process", self.asked, "--internal-pid-file", self.inside, self.program.name)
        pid = self.program.begin(*words, stdio=self.stdio, control=self.sandbox.tty)
        if not self.runs(pid):
            self.program.must(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or FAILED)
        os.rename(self.inside, self.program.path(f"{EXEC}{pid}"))
        self.clear()
        if self.sandbox.tty:
            with socket.socket(fileno=os.dup(self.report)) as reports:
                socket.send_fds(reports, [protocol.TERMINAL], [self.terminal[0]])
        os.write(self.report, protocol.encode_birth(pid, executed=False))

    # Parts of the last step.

    def runs(self, pid: int) -> bool:
        """Wait until the process runs, which the program tells by a file; False when the program has ended before."""
        ended = select.poll()
        program = os.pidfd_open(pid)
        ended.register(program, select.POLLIN)
        try:
            for _ in range(int(_SECONDS * 1000 / _LOOK_MS)):
                over = bool(ended.poll(_LOOK_MS))
                if os.path.exists(self.inside):
                    return True
                if over:
                    return False
            signal.pidfd_send_signal(program, signal.SIGKILL)
        finally:
            os.close(program)
        raise SystemFailure("the runtime does not say that the command runs")

    def clear(self) -> None:
        for path in (self.asked, self.log, self.inside):
            if os.path.exists(path):
                os.unlink(path)


STEPS: tuple[tuple[str, Callable[[_JoinViaRuntime], None]], ...] = (
    ("seclude", _JoinViaRuntime.seclude),
    ("bundle", _JoinViaRuntime.describe),
    ("terminal", _JoinViaRuntime.terminal_),
    ("exec", _JoinViaRuntime.execute),
)
"""Every step, in order: its name in a failure, and what it does."""


def run(
    sandbox: Sandbox,
    stdio: tuple[int, int, int] | None,
    report: int,
    prepared: bool = False,
    held: tuple[int, ...] = (),
) -> None:
    """Have the command run in the container, and end. The parameters are those of `join.run`."""
    try:
        _JoinViaRuntime(sandbox, stdio, report, prepared, held).run()
    finally:
        os._exit(FAILED)
