"""Remembers in which cgroups the kernel has killed processes for lack of memory, from the kernel's own log.

Runs in the daemon, on hosts where systemd removes the cgroup of a container as soon as it is empty, often before the
daemon could read its counters, and always when there is no daemon. The kernel writes such a line for ten kills within
five seconds at most; of more, some are missed. A host that does not let the daemon read that log has none.
"""

import logging
import re
import threading

from engine.kernel.kernellog import KernelLog

log = logging.getLogger(__name__)

_KILLED = re.compile(r"oom-kill:constraint=\w+,.*?\btask_memcg=(/[^,]*),task=")
_MOST = 1000


class Killings:
    """The cgroups that the log names; any thread may ask."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        """path: of the log, which is opened when it is needed."""
        self._lock = threading.Lock()
        self._path = path
        self._log: KernelLog | None = None
        self._cgroups: dict[str, None] = {}

    def forget(self, cgroup: str) -> None:
        """A new cgroup of this path is made: what the log says of an earlier one does not count."""
        with self._lock:
            self._read(end=True)
            self._take(cgroup)

    def told(self, cgroup: str) -> bool:
        """Whether the log tells of a kill in the cgroup of this path or below it, since the last call for it."""
        with self._lock:
            self._read(end=False)
            return self._take(cgroup)

    def _read(self, *, end: bool) -> None:
        try:
            if self._log is None:
                self._log = KernelLog(self._path, end=end)
            lines = self._log.read()
        except OSError as error:
            log.debug("the kernel's log cannot be read: %s", error)
            return
        for line in lines:
            if found := _KILLED.match(line):
                self._cgroups[found[1]] = None
        while len(self._cgroups) > _MOST:
            del self._cgroups[next(iter(self._cgroups))]

    def _take(self, cgroup: str) -> bool:
        found = [each for each in self._cgroups if each == cgroup or each.startswith(f"{cgroup}/")]
        for each in found:
            del self._cgroups[each]
        return bool(found)
