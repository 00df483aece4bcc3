"""Describes the process of an exec, with the user that it is to have, and ends it.

Runs in the API's threads. The process of a container that has a kernel of its own is run by the runtime's program
(`birth.joinviaruntime`), and killed by it.
"""

import logging
import os
import signal

from engine.daemon.containers.exec.known import Command, Exec
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import specify
from engine.daemon.parts import ExecParts
from engine.daemon.runtime import signalling
from engine.dataclass import replace
from engine.errors import Conflict, SystemFailure
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late
from engine.sandbox import capabilities, users
from engine.sandbox.spec import Sandbox

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.contents import rootfs
    from engine.daemon.containers.security import apart, ociconfig, runtimecommands
else:
    apart = late("engine.daemon.containers.security.apart")
    ociconfig = late("engine.daemon.containers.security.ociconfig")
    runtimecommands = late("engine.daemon.containers.security.runtimecommands")
    rootfs = late("engine.daemon.containers.contents.rootfs")

log = logging.getLogger(__name__)


def of(engine: ExecParts, container: Container, command: Command, size: tuple[int, int]) -> Sandbox:
    """The sandbox of an exec's process. size: rows and columns of its terminal. Raises Invalid for an unknown user."""
    base = specify.process_of(engine, container)
    made = replace(
        base,
        argv=command.argv,
        env=command.env,
        cwd=command.cwd,
        user=command.user,
        tty=command.tty,
        rows=size[0],
        columns=size[1],
        capabilities=capabilities.ALL if command.privileged else base.capabilities,
    )
    runtime = apart.of(engine, container)
    if not runtime:
        return made
    who = _identity(engine, container, command.user, made.groups)
    return replace(made, runtime=runtime, config=ociconfig.process_text(made, who))


def _identity(engine: ExecParts, container: Container, user: str, groups: tuple[str, ...]) -> users.Identity:
    """Who a user of a container with a kernel of its own is, by its files, which are read from below."""
    return rootfs.visit(engine, container, lambda view: users.identify(view.root, user, groups), mounted=False)


def check_user(engine: ExecParts, container: Container, user: str) -> None:
    """Raise Invalid for the name of a user or group that the container does not have at the moment."""
    if apart.of(engine, container):
        _identity(engine, container, user, ())
        return
    state = container.snapshot()
    with signalling.opened(state.pid, state.pid_start) as pidfd:
        if pidfd is None:
            raise Conflict(f"container {container.id} is not running")
        try:
            root = os.open(f"/proc/{state.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Conflict(f"container {container.id} is not running") from error
        try:
            # If the process still lives, its pid was its own when /proc/PID/root was opened.
            if not signalling.alive(pidfd):
                raise Conflict(f"container {container.id} is not running")
            users.identify(root, user, ())
        except OSError as error:
            raise SystemFailure(f"unable to find user {user}: {reasons.whole(error)}") from error
        finally:
            os.close(root)


def kill(engine: ExecParts, one: Exec) -> None:
    """Kill the process of an exec, and what may stand for it in the host."""
    if runtime := apart.of(engine, one.container):
        try:
            runtimecommands.kill_exec(runtime, one.pid)
        except SystemFailure as error:  # it has ended meanwhile, or the container has
            log.debug("exec %s: %s", one.id, error)
    signalling.send_signal(one.pid, one.pid_start, signal.SIGKILL)


def forget(engine: ExecParts, one: Exec) -> None:
    """Remove what a runtime has noted of an exec that has ended."""
    if one.pid and (runtime := apart.of(engine, one.container)):
        runtimecommands.forget_exec(runtime, one.pid)
