"""Record that a container's run has ended, release what it held, and begin a restart or the removal if one is due.

`ended` runs in a thread that watches the monitors, at the same time as those of other containers (`runtime.monitors`),
and at a daemon's start in the main thread (`adopt`). It takes no `container.operation`, since an end can come at any
moment.
"""

import logging
import os
import signal
import time

from engine.daemon.clock import SECOND
from engine.daemon.containers import paths, states
from engine.daemon.containers.announce import announce
from engine.daemon.containers.life import policy, restarts
from engine.daemon.containers.record import Container
from engine.daemon.containers.saving import save
from engine.daemon.containers.security import cgroupparent
from engine.daemon.measured import timed
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime import handshake, signalling
from engine.daemon.runtime.background import later
from engine.errors import SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.wire import exitfile
from engine.wire.schema import Exited

if TYPE_CHECKING:  # loaded by the first start, or by an adoption
    from engine.daemon.containers.endpoints import ending
    from engine.daemon.containers.health import probing
    from engine.daemon.containers.mounts import points
    from engine.daemon.containers.verbs import remove, start
else:
    ending = late("engine.daemon.containers.endpoints.ending")
    probing = late("engine.daemon.containers.health.probing")
    points = late("engine.daemon.containers.mounts.points")
    remove = late("engine.daemon.containers.verbs.remove")
    start = late("engine.daemon.containers.verbs.start")

log = logging.getLogger(__name__)

LOST_EXIT = 255
LOST_TEXT = "the monitor of the container was lost, and its exit code with it"
"""What `State.Error` says of such an end, before what a crash has left."""
_KILLED_SECONDS = 10


def ended(engine: ContainerParts, container: Container, exited: Exited | None) -> None:
    """Record the end and do what the restart policy, or AutoRemove, asks for.

    exited: None if the monitor died and left no message; then the container is killed, so that it does not run
        unwatched
    """
    record(engine, container, exited, obey_policy=True)
    with container.changed:
        again = container.state.status == "restarting"
        by_itself = container.host_config["AutoRemove"] and not (again or container.being_restarted)
    if again:
        restarts.schedule(engine, container)
    elif by_itself:
        later(remove.remove, engine, container, False, True, about=container.id)


def record(
    engine: ContainerParts, container: Container, exited: Exited | None, *, obey_policy: bool, error: str = ""
) -> None:
    """Record the end and take away what only a running container has; the caller decides what follows.

    exited: None as for `ended`; error: the new `State.Error`, empty to keep the present one
    """
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    if exited is None:
        exited = handshake.left_behind(where.exec_dir)
    if exited is None:
        exited, error = end_unseen(engine, container, where)
    oom_killed = _oom_killed(engine, container)
    with container.changed:
        container.settling = True
    try:
        _leave_networks(engine, container)
        with container.changed:
            container.state.error = error or container.state.error
            _note(engine, container, exited, oom_killed, obey_policy)
            for follower in container.followers:
                os.eventfd_write(follower, 1)
        engine.monitors.settled(container.id)
        # Should this daemon die before the row is saved, the exit file still has the end. Threads that wait for the end
        # need not wait for what follows; a start or a removal does.
        with container.changed:
            container.unsaved = not save(engine, container)
        if container.unsaved:
            start.clear_cgroups(engine, container)
        else:
            start.clear_run(engine, container, where)
    finally:
        with container.changed:
            container.settling = False
            container.changed.notify_all()


@timed("network_actions", "release")
def _leave_networks(engine: ContainerParts, container: Container) -> None:
    """Give back the networks before the end is announced.

    A client that hears of the end may want the ports, the address or the networks for something else.
    """
    if engine.networks.endpoints(container_id=container.id):
        ending.release(engine, container)


def _oom_killed(engine: ContainerParts, container: Container) -> bool:
    try:
        return engine.cgroups.oom_killed(container.id, cgroupparent.of(container))
    except OSError as error:  # the end itself must be recorded all the same
        log.warning("container %s: cannot tell whether it ran out of memory: %s", container.id, error)
        return False


def _note(engine: ContainerParts, container: Container, exited: Exited, oom_killed: bool, obey_policy: bool) -> None:
    """Change the state and publish the events of the end; the caller holds `changed`."""
    state = container.state
    ran_seconds = max(exited.finished_ns - state.started_ns, 0) / SECOND
    state.exit_code, state.finished_ns = exited.exit_code, exited.finished_ns
    engine.oom.settle(engine, container, oom_killed)
    probing.halt(container)
    state.pid = state.pid_start = 0
    container.last_exit = exited.exit_code
    container.exits += 1
    engine.execs.drop_unstarted(container)
    again = obey_policy and not container.held
    again = again and policy.runs_again(
        container.host_config["RestartPolicy"],
        exited.exit_code,
        by_hand=state.stopped_by_hand,
        count=state.restart_count,
    )
    if again:
        state.restart_count += 1
        container.delay = policy.delay(container.delay, ran_seconds)
    announce(engine, container, "die", exitCode=exited.exit_code, execDuration=int(ran_seconds))
    points.tell_unmounted(engine, container)
    states.move(container, "restarting" if again else "exited")


def end_unseen(engine: ContainerParts, container: Container, where: paths.Paths) -> tuple[Exited, str]:
    """Kill a process that runs without a monitor (its output goes nowhere); its own exit code cannot be known."""
    state = container.snapshot()
    error = why_lost(container, where)
    if signalling.send_signal(state.pid, state.pid_start, signal.SIGKILL):
        try:
            engine.cgroups.wake(container.id, cgroupparent.of(container))  # a paused process cannot die
        except SystemFailure as failure:
            log.warning("container %s: %s", container.id, failure)
        if not signalling.kill_and_wait(state.pid, state.pid_start, _KILLED_SECONDS):
            log.error("container %s: its process %d does not end after SIGKILL", container.id, state.pid)
    return lost(container), error


def why_lost(container: Container, where: paths.Paths) -> str:
    """The text of `State.Error` for a monitor that is gone; the whole trace of its crash, if any, is logged."""
    crash = exitfile.read(where.exec_dir, exitfile.CRASH)
    if crash is None:
        log.error("container %s: its monitor has died without a report; the container is ended", container.id)
        return LOST_TEXT
    text = crash.decode("utf-8", "replace").strip()
    log.error("container %s: its monitor has crashed; the container is ended: %s", container.id, text)
    return f"{LOST_TEXT}: {text.splitlines()[-1] if text else 'it crashed'}"


def lost(container: Container) -> Exited:
    """The `Exited` message for a run of which nothing more is known."""
    return Exited(LOST_EXIT, time.time_ns(), container.state.started_ns)
