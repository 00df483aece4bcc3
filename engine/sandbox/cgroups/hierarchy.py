"""The interface to a container's cgroups of either version: make, enter, limit, freeze, kill and remove them.

Runs in the daemon, whose threads may call it at once: every call is for one container and keeps no state. What differs
between the versions is in `v1` and `v2`; here are the methods that callers use, and docker's words for what a host
lacks. It never moves another process than the one it is told, and never touches a cgroup outside its parent.

Entering costs time: to write another process's pid into cgroup.procs makes the kernel wait for a grace period of RCU (5
to 15 ms measured), while a single-threaded process that writes 0 into version 1's `tasks` waits for nothing (0.02 ms).
So init enters by itself: `Sandbox.cgroups` is set to `entries(id)`. Where systemd makes the cgroups, it moves init (see
`scopes`).
"""

import contextlib
import errno
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from engine.dataclass import replace
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons, smallfile
from engine.sandbox.cgroups import slices, subtree
from engine.sandbox.device_rules import DEFAULT
from engine.sandbox.spec import Limits

ROOT = "/sys/fs/cgroup"
"""Where a host has its cgroups."""
PARENT = "/engine"
"""The cgroup that all containers' cgroups are in, unless the caller says otherwise."""

_GONE = frozenset({errno.ENOENT, errno.ENODEV})  # the second for a file that was open when its cgroup was removed
_LATEST_REMOVAL = 2.0
_PAUSE = 0.001

_DISCARDED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("memory", "memory_swap"),
        "memory",
        "Your kernel does not support memory limit capabilities or the cgroup is not mounted. Limitation discarded.",
    ),
    (
        ("memory_swap",),
        "swap",
        "Your kernel does not support swap limit capabilities or the cgroup is not mounted. "
        "Memory limited without swap.",
    ),
    (
        ("memory_reservation",),
        "memory_reservation",
        "Your kernel does not support memory soft limit capabilities or the cgroup is not mounted. "
        "Limitation discarded.",
    ),
    (
        ("pids",),
        "pids",
        "Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. PIDs limit discarded.",
    ),
    (
        ("cpu_shares",),
        "cpu_shares",
        "Your kernel does not support CPU shares or the cgroup is not mounted. Shares discarded.",
    ),
    (
        ("cpu_period", "cpu_quota", "nano_cpus"),
        "cpu_cfs",
        "Your kernel does not support CPU CFS scheduler. CPU period/quota discarded.",
    ),
    (
        ("cpuset_cpus", "cpuset_mems"),
        "cpuset",
        "Your kernel does not support cpuset or the cgroup is not mounted. Cpuset discarded.",
    ),
    (
        ("memory_swappiness",),
        "memory_swappiness",
        "Your kernel does not support memory swappiness capabilities or the cgroup is not mounted. "
        "Memory swappiness discarded.",
    ),
    (
        ("oom_kill_disable",),
        "oom_kill_disable",
        "Your kernel does not support OomKillDisable. OomKillDisable discarded.",
    ),
    (
        ("blkio_weight",),
        "blkio_weight",
        "Your kernel does not support Block I/O weight or the cgroup is not mounted. Weight discarded.",
    ),
    (
        ("blkio_weight_device",),
        "blkio_weight_device",
        "Your kernel does not support Block I/O weight_device or the cgroup is not mounted. Weight-device discarded.",
    ),
    (
        ("blkio_read_bps",),
        "blkio_throttle",
        "Your kernel does not support BPS Block I/O read limit or the cgroup is not mounted. "
        "Block I/O BPS read limit discarded.",
    ),
    (
        ("blkio_write_bps",),
        "blkio_throttle",
        "Your kernel does not support BPS Block I/O write limit or the cgroup is not mounted. "
        "Block I/O BPS write limit discarded.",
    ),
    (
        ("blkio_read_iops",),
        "blkio_throttle",
        "Your kernel does not support IOPS Block read limit or the cgroup is not mounted. "
        "Block I/O IOPS read limit discarded.",
    ),
    (
        ("blkio_write_iops",),
        "blkio_throttle",
        "Your kernel does not support IOPS Block write limit or the cgroup is not mounted. "
        "Block I/O IOPS write limit discarded.",
    ),
)
"""Fields of Limits, the feature they need, and what docker says without it."""
_NOTHING = Limits()


class Gone(SystemFailure):
    """There is no such cgroup. systemd removes a scope with its last process, before the daemon hears of that end."""


class Cgroups(ABC):
    """The host's cgroups. There is one subclass for each version; the methods here are the same for both.

    version: "1" or "2", as `info` shows it (hybrid is "1"), empty on a host without cgroups; hybrid: version 2 is
        mounted beside version 1
    driver: `systemd` where systemd makes the cgroups of new containers (see `scopes`), else `cgroupfs`
    slice: with the driver `systemd` the parent of containers that ask for none
    holds_processes: a container's processes, however many, can be found, frozen and killed by its cgroup
    hasten: called in another thread, has the kernel wait now for what entering would wait for (see above)
    grown: a hierarchy was mounted since the daemon's start, which a process with older mounts may not see
    controllers: all that can be used; features: which kinds of limit work, of `memory`, `swap`, `memory_reservation`,
        `memory_swappiness`, `oom_kill_disable`, `pids`, `cpu_shares`, `cpu_cfs`, `cpu_rt`, `cpuset`, `blkio_weight`,
        `blkio_weight_device`, `blkio_throttle`
    """

    version = ""
    hybrid = False
    holds_processes = True
    hasten: Callable[[], None] | None = None
    grown = False
    driver = "cgroupfs"
    slice = slices.DEFAULT

    def __init__(self, root: str, controllers: frozenset[str], features: frozenset[str]) -> None:
        """root: where the hierarchies are mounted."""
        self.root = root
        self.controllers = controllers
        self._features = features

    @property
    def features(self) -> frozenset[str]:
        """The kinds of limit that work here, see above."""
        return self._features

    @property
    @abstractmethod
    def guards_devices(self) -> bool:
        """Whether a cgroup decides here which devices a container may use."""

    def fitting(self, limits: Limits) -> tuple[Limits, list[str]]:
        """The limits that this host can keep, and docker's warning for each that it cannot."""
        return fitted(limits, self.features) if limits != _NOTHING else (limits, [])

    def grant_real_time(self, period: int, runtime: int) -> None:
        """Give the parents of containers this budget of the real-time scheduler, in microseconds; 0: none is asked for.

        Raises Invalid in docker's words where they cannot have one.
        """
        if period or runtime:
            where = "for cgroup v2" if self.version else "without cgroups"
            raise Invalid(f"daemon-scoped cpu-rt-period and cpu-rt-runtime are not implemented {where}")

    def path_text(self, id: str, parent: str = PARENT) -> str:
        """The cgroup as /proc/PID/cgroup shows it."""
        return f"{parent.rstrip('/')}/{id}"

    @abstractmethod
    def directories(self, id: str, parent: str = PARENT) -> tuple[str, ...]:
        """The cgroup's directory in each hierarchy that is used, as host paths."""

    @abstractmethod
    def entries(self, id: str, parent: str = PARENT, *, running: bool = False) -> tuple[str, ...]:
        """The files into which process 1, single-threaded, writes "0" to enter: for `Sandbox.cgroups`.

        running: the container runs already, and another process is to enter
        """

    def create(
        self,
        id: str,
        limits: Limits,
        parent: str = PARENT,
        *,
        all_devices: bool = False,
        devices: tuple[str, ...] = (),
        pid: int = 0,
    ) -> None:
        """Make the cgroup and set its limits (those that `fitting` returns). Raises SystemFailure.

        all_devices: do not restrict which devices may be used (privileged); devices: rules (see `device_rules`) for
            devices that may be used besides the usual ones; pid: of init, if the cgroup `begins_with_process`, for
            which `begin` was called. After a failure, what was made is removed.
        """
        try:
            self._create(id, limits, parent, None if all_devices else (*DEFAULT, *devices), pid)
        except OSError as error:
            self.remove(id, parent)
            raise self._failure(id, parent, error) from error
        except SystemFailure:
            self.remove(id, parent)
            raise

    @abstractmethod
    def _create(self, id: str, limits: Limits, parent: str, devices: tuple[str, ...] | None, pid: int) -> None:
        """Make the cgroup and set the limits.

        Raises OSError, SystemFailure; the caller removes what was made. devices: None for all.
        """

    def begins_with_process(self, parent: str) -> bool:
        """Whether a cgroup below this parent is made around init, which then does not enter by itself."""
        return False

    def begin(self, id: str, limits: Limits, parent: str, pid: int) -> None:
        """Have the cgroup made that `begins_with_process`, around init; `create` then waits for it, and does the rest.

        Raises SystemFailure.
        """
        raise SystemFailure(f"cgroup {self.path_text(id, parent)}: process {pid} is to enter it by itself")

    def update(self, id: str, limits: Limits, parent: str = PARENT, before: Limits = _NOTHING) -> None:
        """Change the limits of a cgroup that is in use to these, which are all limits that it is to have.

        before: the cgroup's present limits; if the kernel refuses one of the new limits, these are put back. Raises
            SystemFailure with the kernel's reason.
        """
        if before.pids and not limits.pids:
            limits = replace(limits, pids=-1)
        try:
            self._update(id, limits, parent)
        except (OSError, SystemFailure) as error:
            # The refusal is reported; a failure to put the old limits back is not.
            with contextlib.suppress(OSError, SystemFailure):
                self._update(id, before, parent)
            raise self._failure(id, parent, error) if isinstance(error, OSError) else error from error

    @abstractmethod
    def _update(self, id: str, limits: Limits, parent: str) -> None:
        """Write the limits, in an order in which no limit keeps another from being written.

        Raises OSError, SystemFailure.
        """

    def freeze(self, id: str, parent: str = PARENT) -> None:
        """Stop all processes of the cgroup where they are, and return once they have stopped.

        Raises SystemFailure; Gone when the cgroup is not there.
        """
        try:
            self._freeze(id, parent)
        except OSError as error:
            failure = self._failure(id, parent, error)
            raise (Gone(str(failure)) if error.errno in _GONE else failure) from error

    @abstractmethod
    def _freeze(self, id: str, parent: str) -> None:
        """Stop all processes of the cgroup. Raises OSError.

        TimeoutError: they did not all stop in time, and then none is stopped.
        """

    def thaw(self, id: str, parent: str = PARENT) -> None:
        """Let frozen processes go on. Processes that are not frozen, and a cgroup that does not exist, are fine.

        Raises SystemFailure.
        """
        try:
            self._thaw(id, parent)
        except OSError as error:
            if error.errno not in _GONE:
                raise self._failure(id, parent, error) from error

    @abstractmethod
    def _thaw(self, id: str, parent: str) -> None:
        """Let all processes of the cgroup go on. Raises OSError."""

    def _failure(self, id: str, parent: str, error: OSError) -> SystemFailure:
        where = f"{error.filename}: " if error.filename else ""
        return SystemFailure(f"cgroup {self.path_text(id, parent)}: {where}{reasons.of(error)}")

    def wake(self, id: str, parent: str = PARENT) -> None:
        """Let killed processes die that the container itself has frozen, in cgroups however deep.

        Version 1 keeps the kill from frozen processes.
        """
        for directory in self.directories(id, parent) if self.version == "1" else ():
            try:
                if os.path.exists(f"{directory}/freezer.state"):
                    subtree.thaw(directory)
            except OSError as error:
                if error.errno not in _GONE:  # otherwise the process has died
                    raise self._failure(id, parent, error) from error

    def remove(self, id: str, parent: str = PARENT) -> None:
        """Kill what is left in the cgroup and remove it; one that does not exist is fine. Raises SystemFailure."""
        latest = time.monotonic() + _LATEST_REMOVAL
        for directory in reversed(self.directories(id, parent)):
            while not _removed(directory):
                if time.monotonic() > latest:
                    raise SystemFailure(
                        f"cgroup {self.path_text(id, parent)}: processes are still in it after {_LATEST_REMOVAL:.0f} s"
                    )
                for each in self.directories(id, parent):
                    with contextlib.suppress(OSError):  # what prevents the removal is reported when the time is over
                        subtree.cleared(each)
                # Version 1 has no event for a cgroup that has become empty.
                time.sleep(_PAUSE)

    def leave(self, parent: str = PARENT) -> None:
        """Remove the parent itself, if no container is in it; `create` makes it again."""
        for directory in self.directories("", parent):
            try:
                os.rmdir(directory)
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOTEMPTY, errno.ENOENT):
                    raise

    @abstractmethod
    def oom_killed(self, id: str, parent: str = PARENT) -> bool:
        """Whether the kernel killed a process here because the memory limit was reached; False when it is unknown."""


def fitted(limits: Limits, features: frozenset[str]) -> tuple[Limits, list[str]]:
    """The limits of these kinds (see `Cgroups`), and docker's warning for each other one."""
    if limits.memory_swap < 0 and "swap" not in features:
        limits = replace(limits, memory_swap=0)  # swap is unlimited here anyway
    warnings = []
    for names, feature, words in _DISCARDED:
        nothing = {name: getattr(_NOTHING, name) for name in names}
        if feature not in features and any(getattr(limits, name) != nothing[name] for name in names):
            limits = replace(limits, **nothing)
            warnings.append(words)
    return limits, warnings


def cpu_quota(limits: Limits) -> tuple[int, int]:
    """(quota, period) in microseconds for the CFS scheduler; 0 for what was not asked for."""
    if limits.nano_cpus:
        return limits.nano_cpus * 100_000 // 1_000_000_000, 100_000
    return limits.cpu_quota, limits.cpu_period


def wait_until(reached: Callable[[], bool], seconds: float) -> bool:
    """Poll until `reached` is true or the time is over; returns whether it is true.

    For a state for which a cgroup has no event.
    """
    latest = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > latest:
            return False
        time.sleep(_PAUSE)
    return True


def write(path: str, value: str) -> None:
    """Write a value into a cgroup's file, in one write(2). Raises OSError with the path."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        error.filename = path
        raise


def read(path: str) -> str:
    """The text of a cgroup's file. Raises OSError."""
    return smallfile.read(path).decode()


def counter(path: str, name: str) -> int:
    """The value of one of the `name value` lines of a file; 0 when the file or the line does not exist."""
    try:
        text = read(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        if error.errno != errno.ENODEV:  # the cgroup was removed after the file was opened
            raise
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} ")), 0)


def _removed(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise SystemFailure(f"{directory}: {reasons.of(error)}") from error
        return False
    return True
