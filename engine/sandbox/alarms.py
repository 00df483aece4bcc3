"""Out-of-memory alarms of cgroups: any thread arms one for a cgroup, and one thread sleeps until the kernel signals it.

Runs in the daemon. With cgroups version 1 the kernel signals an eventfd that was registered with cgroup.event_control,
when the cgroup reaches its limit and nothing can be reclaimed, and also when the cgroup is removed. With version 2 it
changes memory.events, which inotify reports; all cgroups share one inotify descriptor, because there are few (128 per
user). The caller finds out what a signal means.
"""

import contextlib
import os
import select
import threading

from engine.kernel import inotify
from engine.sandbox.cgroups.hierarchy import counter, write

_V1_FILE, _V2_FILE = "memory.oom_control", "memory.events"
_KILLS = "oom_kill"


class Alarms:
    """The alarms of one daemon, each under a key that the caller chooses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._poll: select.epoll | None = None
        self._inotify = -1
        self._keys: dict[int, str] = {}  # version 1: eventfd -> key
        self._eventfds: dict[str, int] = {}
        self._files: dict[int, tuple[str, str]] = {}  # version 2: number of the watch -> key, file
        self._numbers: dict[str, int] = {}
        self._kills: dict[str, int] = {}

    def arm(self, key: str, directories: tuple[str, ...]) -> None:
        """Watch the cgroup with these directories, in place of the cgroup that this key had before. Raises OSError.

        FileNotFoundError: there is no memory controller.
        """
        self.disarm(key)
        for directory in directories:
            for name, begin in ((_V1_FILE, self._arm_v1), (_V2_FILE, self._arm_v2)):
                if os.path.exists(f"{directory}/{name}"):
                    with self._lock:
                        begin(key, f"{directory}/{name}")
                    return
        raise FileNotFoundError(f"no {_V1_FILE} or {_V2_FILE}")

    def _arm_v1(self, key: str, path: str) -> None:
        eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with contextlib.closing(_Opened(path)) as control:
                write(os.path.join(os.path.dirname(path), "cgroup.event_control"), f"{eventfd} {control.fd}")
            self._polled().register(eventfd, select.EPOLLIN)
        except BaseException:
            os.close(eventfd)
            raise
        self._keys[eventfd], self._eventfds[key] = key, eventfd

    def _arm_v2(self, key: str, path: str) -> None:
        if self._inotify < 0:
            self._inotify = inotify.create()
            self._polled().register(self._inotify, select.EPOLLIN)
        number = inotify.watch(self._inotify, path)
        self._files[number], self._numbers[key] = (key, path), number
        self._kills[key] = counter(path, _KILLS)

    def _polled(self) -> select.epoll:
        if self._poll is None:
            self._poll = select.epoll()
        return self._poll

    def disarm(self, key: str) -> None:
        """Stop watching the cgroup of this key; a key that is not watched is fine."""
        with self._lock:
            eventfd = self._eventfds.pop(key, None)
            if eventfd is not None:
                del self._keys[eventfd]
                os.close(eventfd)
            number = self._numbers.pop(key, None)
            if number is not None:
                del self._files[number], self._kills[key]
                with contextlib.suppress(OSError):  # EINVAL: the cgroup was removed first, and the watch with it
                    inotify.unwatch(self._inotify, number)

    def wait(self, seconds: float | None = None) -> list[str]:
        """Sleep until an alarm comes; returns the keys of those that came. An alarm must have been armed before the
        first call.

        Any of these keys may have been disarmed by the time this returns.
        """
        rung = []
        for descriptor, _ in self._polled().poll(seconds):
            with self._lock:  # a descriptor that is among the keys is still in use here, whatever was closed meanwhile
                if descriptor == self._inotify:
                    rung += self._changed()
                elif descriptor in self._keys and _rang(descriptor):
                    rung.append(self._keys[descriptor])
        return rung

    def _changed(self) -> list[str]:
        """The keys of the cgroups in which the kernel has killed a process since the last look."""
        rung = []
        for number in dict.fromkeys(number for number, mask in inotify.read(self._inotify) if mask & inotify.MODIFIED):
            if number not in self._files:
                continue
            key, path = self._files[number]
            kills = counter(path, _KILLS)
            if kills > self._kills[key]:
                self._kills[key] = kills
                rung.append(key)
        return rung


class _Opened:
    """A file that is open while the kernel looks up its descriptor number."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)


def _rang(eventfd: int) -> bool:
    try:
        os.eventfd_read(eventfd)
    except BlockingIOError:
        return False
    return True
