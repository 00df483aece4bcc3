"""Watch containers with a memory limit for out-of-memory kills, publish `oom` at once, and record it in the state.

Only containers with a memory limit are watched. One thread, begun with the first of them, sleeps until the kernel
signals an alarm (`sandbox.alarms`), so an ordinary start pays nothing. If the end comes at the same time as the alarm,
the end publishes the event.
"""

import logging

from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.containers.saving import save_and_tell
from engine.daemon.containers.security import cgroupparent
from engine.daemon.parts import OomParts
from engine.daemon.runtime.worker import Worker
from engine.sandbox.alarms import Alarms

log = logging.getLogger(__name__)


class OomWatch:
    """The listener for the alarms of all containers of a daemon; `engine.oom`."""

    def __init__(self) -> None:
        self._alarms = Alarms()
        self._watched: dict[str, tuple[OomParts, Container]] = {}
        self._worker = Worker("oom", self._listen)

    def watch(self, engine: OomParts, container: Container) -> None:
        """Listen for a container with a memory limit whose cgroup exists, whether a process is in it yet or not.

        A failure to watch is logged: it is no reason not to start the container.
        """
        try:
            self._watched[container.id] = engine, container
            self._alarms.arm(container.id, engine.cgroups.directories(container.id, cgroupparent.of(container)))
        except OSError as error:
            self._watched.pop(container.id, None)
            log.warning(
                "container %s: cannot watch for out-of-memory kills; they are reported only at its end: %s",
                container.id,
                error,
            )
            return
        self._worker.wake()

    def limited(self, engine: OomParts, container: Container) -> None:
        """Listen for a container that was given its limit while it runs; do nothing if it has just ended."""
        with container.changed:
            if container.state.pid:
                self.watch(engine, container)

    def adopt(self, engine: OomParts, container: Container) -> None:
        """Listen for a container that an earlier daemon started, and publish what happened since that daemon died."""
        if container.host_config["Memory"] <= 0:
            return
        self.watch(engine, container)
        killed = engine.cgroups.oom_killed(container.id, cgroupparent.of(container))
        with container.changed:
            if killed and not container.state.oom_killed:
                _happened(engine, container)

    def settle(self, engine: OomParts, container: Container, killed: bool) -> None:
        """The container has ended; killed: the kernel has killed a process in it. Called with `changed` held.

        From here on nothing more is published of that run.
        """
        self.forget(container)
        if killed and not container.state.oom_killed:
            _happened(engine, container)

    def forget(self, container: Container) -> None:
        """Stop listening for a container whose cgroup is going away, or never had a process in it."""
        if self._watched.pop(container.id, None) is not None:
            self._alarms.disarm(container.id)

    def _listen(self) -> None:
        while True:
            for container_id in self._alarms.wait():
                watched = self._watched.get(container_id)
                if watched is not None:
                    self._tell(*watched)

    def _tell(self, engine: OomParts, container: Container) -> None:
        with container.changed:
            # Version 1 also signals when the cgroup is removed, and by then the end is known.
            if container.id in self._watched and container.state.running:
                container.state.oom_killed = True
                save_and_tell(engine, container, "oom")


def _happened(engine: OomParts, container: Container) -> None:
    container.state.oom_killed = True
    announce(engine, container, "oom")
