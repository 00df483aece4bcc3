"""Calls the program of another OCI runtime, and says why a call has failed.

Runs in a forked child of a monitor, or in an exec's joiner, single-threaded. The program is called as runc(8) is. It
gets no descriptor but its three streams, and of the environment PATH alone. It works in the bundle: runsc makes the
directories above its log, and would make that of a container again which has ended meanwhile.
"""

import errno
import json
import os
import signal

from engine.birth.process import default_signals, place
from engine.errors import SystemFailure
from engine.kernel.descriptors import close_on_exec
from engine.sandbox import command, devices

_STATE = "state"
_LARGEST_LOG = 1 << 16
_PATH = os.environ.get("PATH") or os.defpath
_NOT_FOUND = ("executable file not found", "no such file or directory")


class Program:
    """runtime: that of a `Sandbox`: the directory of the bundle, the program, its first arguments.

    log: the name of a file of the bundle, where the program is to write what goes wrong
    """

    def __init__(self, runtime: tuple[str, ...], log: str) -> None:
        self.bundle, self._program, *self._arguments = runtime
        self.name = os.path.basename(self.bundle)
        self._log = log

    def path(self, name: str) -> str:
        """The path of a file of the bundle."""
        return os.path.join(self.bundle, name)

    def call(self, *words: str, stdio: tuple[int, int, int] | None = None) -> int:
        """Run the program with these words; returns its exit status."""
        return os.waitstatus_to_exitcode(os.waitpid(self.begin(*words, stdio=stdio), 0)[1])

    def begin(self, *words: str, stdio: tuple[int, int, int] | None = None, control: bool = False) -> int:
        """Start the program with these words; returns its pid.

        stdio: the null device without; control: it leads a session, whose terminal is the first of `stdio`
        """
        line = [self._program, *self._arguments, "--root", self.path(_STATE), "--log", self._log]
        line += ["--log-format", "json", *words]
        pid = os.fork()
        if pid == 0:
            try:
                null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                place(stdio or (null, null, null))
                os.chdir(self.bundle)
                close_on_exec()
                if control:
                    os.setsid()
                    devices.control(0)
                default_signals()
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                os.execve(self._program, line, {"PATH": _PATH})
            finally:
                os._exit(command.NOT_FOUND)
        return pid

    def must(self, status: int) -> None:
        """Raise what the runtime has said where it has failed: Refusal for a command that is not there."""
        if not status:
            return
        said = self._said() or f"exit status {status}"
        text = f"{os.path.basename(self._program)}: {said}"
        if any(words in said.lower() for words in _NOT_FOUND):
            raise command.Refusal(errno.ENOENT, text, command.NOT_FOUND)
        if "permission denied" in said.lower():
            raise command.Refusal(errno.EACCES, text, command.NOT_RUNNABLE)
        raise SystemFailure(text)

    def _said(self) -> str:
        """The last error in the runtime's log."""
        try:
            with open(self.path(self._log), "rb") as file:
                lines = file.read(_LARGEST_LOG).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ""
        for line in reversed(lines):
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and told.get("level") in ("error", "fatal"):
                return str(told.get("msg", ""))
        return ""
