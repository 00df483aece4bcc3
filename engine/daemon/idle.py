"""Ends a daemon that has nothing to do, in such a way that nothing is lost (`--idle-exit`).

Runs in the main thread, which looks again when the time may have come, and sleeps until then. A daemon is at work while
it answers a request (a client that waits, follows or builds is one), while a thread of its own works, while work is
scheduled (a restart, a probe of a container's health), while an exec or a client waits for its start, and while an exec
runs. A connection without a request is no work: it is closed when nothing was asked on it for the whole time. Nor is
half a head of a request. So a client that says nothing keeps the daemon awake for that time alone.

It goes in this order. No more connections are accepted: who connects from now on waits in the kernel's queue, which is
that of systemd or of `engine listen` too, and so for the next daemon. If anything came in between, the daemon goes on
as before. Then the connections without a request are ended, monitors are told whom to wake, and what the daemon knows
is saved (`slumber`). At last it hears nothing of monitors any more. From here on there is no way back. What a monitor
has said just before is work for the next daemon: this one wakes it by a call to the socket that both have.
"""

import logging
import os
import select
import signal
import stat
import time

from engine.daemon import busy, slumber
from engine.daemon.api.acceptor import Acceptor
from engine.daemon.containers import paths
from engine.daemon.containers.record import Container
from engine.daemon.parts import ContainerParts
from engine.wire import wakeup

log = logging.getLogger(__name__)

_PART_SECONDS = 2.0
_SETTLE_SECONDS = 10.0
_SETTLE_STEP = 0.005


class Idle:
    """Whether and when a daemon ends by itself.

    seconds: without work, until it does; 0 for never
    starter: the process that has started the daemon, looked up before any client could be answered: it may be gone now
    """

    def __init__(self, engine: ContainerParts, server: Acceptor, seconds: int, starter: int) -> None:
        self._engine = engine
        self._server = server
        self._seconds = seconds
        if seconds and engine.settings.metrics_addr:
            log.info("the daemon does not end by itself: it answers at --metrics-addr, whose socket is its own")
            self._seconds = 0
        self._not_before = 0.0
        self._starter = starter
        self._bell = next(filter(_is_socket, server.paths), "")

    def left(self) -> float | None:
        """Seconds until `falls_asleep` is to be called; None for never."""
        if not self._seconds:
            return None
        now = time.monotonic()
        since = self._since()
        due = (now if since is None else since) + self._seconds
        return max(due, self._not_before, now) - now

    def falls_asleep(self) -> bool:
        """End all work if there was none for long enough. True: the daemon must end now; False: it goes on."""
        since = self._since()
        if since is None or time.monotonic() < since + self._seconds:
            return False
        self._not_before = time.monotonic() + self._seconds
        if os.getppid() != self._starter:
            log.warning("who started the daemon is gone, and nobody would start it again: it does not end by itself")
            self._seconds = 0
            return False
        self._server.hold()
        if self._ends(since):
            return True
        slumber.forget(self._engine.settings.exec_root)
        self._server.reopen()
        return False

    def _ends(self, since: float) -> bool:
        """Go the way to the end, from where no connection is accepted; False where something has come in between.

        since: when the last work had ended, as it was before
        """
        if self._since() != since or not self._leave_word():
            return False
        if not self._server.part(_PART_SECONDS) or self._since() != since or signal.sigpending():
            return False
        rested = busy.idle_since()
        unheard = self._engine.monitors.let_go()
        if unheard or not self._settle() or busy.idle_since() != rested:
            self._wake_the_next()
        log.info("nothing to do for %d seconds: asleep until there is; containers run on", self._seconds)
        return True

    def _since(self) -> float | None:
        """Since when there is nothing to do, of the monotonic clock; None while there is."""
        engine = self._engine
        rested = busy.idle_since()
        if rested is None or engine.schedule.waits or engine.monitors.at_work:
            return None
        if any(map(self._keeps_awake, engine.containers.glance_all())):
            return None
        return max(rested, self._server.met)

    def _keeps_awake(self, container: Container) -> bool:
        if container.probing is not None or self._engine.execs.expected(container):
            return True
        if any(not _has_hung_up(connection.fileno()) for _, connection in list(container.waiting)):
            return True
        return _ends_with_work(container) and not (self._bell and self._engine.monitors.wakes(container.id))

    def _leave_word(self) -> bool:
        """Tell monitors whom to wake, and save what the daemon knows; False where that fails."""
        settings = self._engine.settings
        try:
            for container in self._engine.containers.glance_all():
                if _ends_with_work(container):
                    where = paths.of(settings.data_root, settings.exec_root, container.id)
                    wakeup.leave(where.exec_dir, self._bell)
            self._save()
        except OSError as error:
            log.warning("the daemon stays awake, because it cannot leave word to the next one: %s", error)
            return False
        return True

    def _save(self) -> None:
        engine = self._engine
        slumber.save(engine.settings.exec_root, engine.events.kept(), engine.containers.glance_all())

    def _settle(self) -> bool:
        """Wait for the end of what a monitor's last message has begun; False if it takes too long."""
        until = time.monotonic() + _SETTLE_SECONDS
        while busy.idle_since() is None or self._engine.monitors.at_work or self._engine.schedule.waits:
            if time.monotonic() > until:
                return False
            time.sleep(_SETTLE_STEP)
        return True

    def _wake_the_next(self) -> None:
        """Have the next daemon started at once, which finds what this one has not heard or has not finished."""
        log.info("there is something to do after all: the next daemon is woken")
        try:
            self._save()  # with the events of the last moment
            if self._bell:
                wakeup.ring(self._bell)
        except OSError as error:
            log.warning("the next daemon could not be woken, and comes with the next client: %s", error)


def _ends_with_work(container: Container) -> bool:
    """Whether the end of the container's run is work for a daemon: it is to be started again, or to be removed."""
    wanted = container.host_config["AutoRemove"] or container.host_config["RestartPolicy"]["Name"] not in ("", "no")
    return wanted and container.snapshot().alive


def _has_hung_up(descriptor: int) -> bool:
    """Whether a client is gone that waits for a start; its connection may have been closed here by now."""
    if descriptor < 0:
        return True
    poll = select.poll()
    poll.register(descriptor, 0)  # a hang-up is always reported
    return bool(poll.poll(0))


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:  # it was bound in another mount namespace, or was removed
        return False
