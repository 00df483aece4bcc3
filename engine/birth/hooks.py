"""Runs the hooks that a container's CDI devices ask for, as OCI runtimes run them.

Runs in init, just before its root becomes the root (createContainer: programs of the host, in the container's
namespaces), and just before the command (startContainer: programs of the container, which the image has brought; they
have the rights of the command). A hook finds the container by its state on standard input, and by a bundle, which has
the config.json alone and is gone when the hooks have ended. A hook that fails ends the start.
Source: the OCI runtime specification 1.0.2, config.md "POSIX-platform Hooks", and runtime.md "State".
"""

import json
import os
import select
import signal
from collections.abc import Sequence

from engine.birth.process import FAILED, default_signals, place
from engine.errors import SystemFailure
from engine.kernel import reasons, syscalls
from engine.kernel.descriptors import close_on_exec
from engine.sandbox.spec import Hook, Sandbox

BEFORE_PIVOT, BEFORE_COMMAND = "createContainer", "startContainer"
RUN = frozenset({BEFORE_PIVOT, BEFORE_COMMAND})
"""The points of a container's life at which init runs hooks."""
_CONFIG = "config.json"
_LONGEST = 1000


def run(sandbox: Sandbox, point: str) -> None:
    """Run the hooks of one point, one after the other. Raises SystemFailure in runc's words."""
    hooks = [each for each in sandbox.hooks if each.point == point]
    if not hooks:
        return
    state = {
        "ociVersion": "1.0.2",
        "id": sandbox.id,
        "status": "creating" if point == BEFORE_PIVOT else "created",
        "pid": _pid(),
        "bundle": sandbox.bundle,
    }
    text = json.dumps(state).encode()
    if point == BEFORE_PIVOT:
        with _Bundle(sandbox):
            _run_all(hooks, point, text, (b"", 0))
        return
    # With no_new_privs init itself loads it just before the command.
    last = sandbox.seccomp if sandbox.no_new_privileges else b""
    _run_all(hooks, point, text, (last, sandbox.seccomp_flags))


def _pid() -> int:
    """The number of this process where /proc was mounted: on the host, or in the container once that is the root."""
    return int(os.readlink("/proc/self"))


class _Bundle:
    """The bundle, for as long as the `with` lasts."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._path, self._config = sandbox.bundle, sandbox.config

    def __enter__(self) -> None:
        os.mkdir(self._path, 0o700)
        with open(os.path.join(self._path, _CONFIG), "w") as file:
            file.write(self._config)

    def __exit__(self, *_: object) -> None:
        os.unlink(os.path.join(self._path, _CONFIG))
        os.rmdir(self._path)


def _run_all(hooks: Sequence[Hook], point: str, state: bytes, last_filter: tuple[bytes, int]) -> None:
    for number, hook in enumerate(hooks):
        problem = _run_one(hook, state, last_filter)
        if problem:
            raise SystemFailure(f"error running {point} hook #{number}: {problem}")


def _run_one(hook: Hook, state: bytes, last_filter: tuple[bytes, int]) -> str:
    """Run one to its end; returns what went wrong, in runc's words, or nothing.

    last_filter: the seccomp filter that this process has not loaded yet, if any, and its flags
    """
    told, said = os.memfd_create("state"), os.memfd_create("said")
    try:
        os.pwrite(told, state, 0)
        pid = os.fork()
        if pid == 0:
            _become(hook, told, said, last_filter)
        if not _ends(pid, hook.timeout):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return f"hook ran past specified timeout of {hook.timeout:.1f}s"
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        words = os.pread(said, _LONGEST, 0).decode("utf-8", "replace")
    finally:
        os.close(told)
        os.close(said)
    return f"exit status {status}, stdout: {words}, stderr: " if status else ""


def _ends(pid: int, timeout: int) -> bool:
    """Whether the process ends within so many seconds; 0 for any time."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], timeout or None)[0])
    finally:
        os.close(descriptor)


def _become(hook: Hook, told: int, said: int, last_filter: tuple[bytes, int]) -> None:
    try:
        place((told, said, said))
        close_on_exec()
        default_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(0o022)
        variables = dict(each.partition("=")[::2] for each in hook.env)
        if last_filter[0]:
            syscalls.seccomp_load(*last_filter)
        os.execve(hook.path, list(hook.args) or [hook.path], variables)
    except OSError as error:
        os.write(said, f"{hook.path}: {reasons.of(error)}".encode())
    finally:
        os._exit(FAILED)
