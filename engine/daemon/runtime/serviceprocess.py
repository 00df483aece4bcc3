"""A process that serves running containers for the daemon, such as the resolver: found, started, told, replaced.

Runs in the daemon, on any thread, under one lock: one thread sends a message at a time and waits for the answer. The
spawner starts the process, with the first container that it is to serve; an earlier daemon may have had it started. All
that the process was told is kept here too, so that another one can be told. The thread that watches the monitors also
notices the end of the link.
"""

import contextlib
import logging
import os
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from engine.daemon import locks
from engine.daemon.runtime import signalling
from engine.daemon.runtime.background import later
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.spawner import Spawner
from engine.dataclass import dataclass
from engine.errors import EngineError, SystemFailure
from engine.kernel import reasons, syscalls
from engine.wire import endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import BeProxy, BeResolver, BeTransparentProxy

log = logging.getLogger(__name__)

_SECONDS = 5.0
"""How long the process may take for anything; a start of a container waits for it."""
_KILLED_SECONDS = 5.0
_PEER = struct.Struct("=iII")  # struct ucred


class Lost(SystemFailure):
    """The process has died, or does not answer."""


class Run(Protocol):
    """What the process is told of one run of a container, whose process 1 has this pid and start time."""

    @property
    def pid(self) -> int: ...

    @property
    def pid_start(self) -> int: ...


Told = TypeVar("Told", bound=Run)
Answer = TypeVar("Answer")
Birth = BeProxy | BeTransparentProxy | BeResolver
"""What the spawner is sent to start such a process."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What kind of process it is, for the log, and where it is found.

    name: `resolver`; deed: what it does, as `answers the names of containers`; harm: what is wrong without it
    socket: the name of its listening socket, of `wire.endpoint`; crash: of the file that tells why it failed, of
        `wire.exitfile`
    """

    name: str
    deed: str
    harm: str
    socket: str
    crash: str


class ServiceProcess(ABC, Generic[Told]):
    """The link to the process of one daemon. The owner holds `_lock` while it calls a method with an underscore.

    `_told`: what each container's run needs, by the container's id
    """

    def __init__(self, kind: Kind, exec_root: str, spawner: Spawner, links: Monitors) -> None:
        self._kind, self._exec_root, self._spawner, self._links = kind, exec_root, spawner, links
        self._lock = locks.Lock(kind.name)
        self._told: dict[str, Told] = {}
        self._link: Channel | None = None
        self._process = 0, 0

    def shown(self) -> str:
        """The process, the link and the number of containers in words, read without the lock."""
        link = self._link
        if link is None:
            return "not running"
        return f"process {self._process[0]}, descriptor {link.fileno()}, serves {len(self._told)} containers"

    @abstractmethod
    def _birth(self, passed: contextlib.ExitStack) -> tuple[Birth, list[int]]:
        """The message that starts the process, and the descriptors that follow the link's.

        passed: closes what the process only needs a copy of
        """

    @abstractmethod
    def _greeting(self, link: Channel) -> tuple[int, int] | None:
        """Receive the process's first message: its pid and start time, or None for another message or none.

        Raises OSError, ValueError, Invalid.
        """

    @abstractmethod
    def _put(self, told: Told) -> None:
        """Tell the process of one run. Raises Lost; SystemFailure, with the reason that it gives."""

    def _serve(self, told: Told, put: Callable[[bool], None]) -> None:
        """Tell the process of a run, and start one if none runs. put: tells; it is given whether one was started now.

        Raises SystemFailure, Unavailable.
        """
        for last in (False, True):
            begun = self._link is None
            if begun:
                self._begin(but=told)
            try:
                put(begun)
                return
            except Lost:
                if last:
                    raise

    def _put_all(self, but: Told | None = None) -> None:
        """Tell the process of all runs but one; one container's failure does not keep it from the others.

        Raises Lost.
        """
        for container, told in self._told.items():
            if told is but:
                continue
            try:
                self._put(told)
            except Lost:
                raise
            except SystemFailure as error:
                log.error("container %s: %s: %s", container, self._kind.harm, error)

    def _exchange(self, exchange: Callable[[Channel], Answer]) -> Answer:
        """Send something and receive the answer; no answer in time counts as the end of the process. Raises Lost."""
        link = self._link
        if link is None:
            raise Lost(f"no {self._kind.name} runs")
        try:
            return exchange(link)
        except (OSError, ValueError, EngineError) as error:
            self._lose(link)
            raise Lost(f"the {self._kind.name} does not answer: {reasons.whole(error)}") from error

    def _begin(self, but: Told | None = None) -> None:
        """Have the spawner start a process, and tell it of all runs. Raises SystemFailure, Unavailable."""
        self._log_crash()
        with contextlib.ExitStack() as passed:
            message, descriptors = self._birth(passed)
            ours, theirs = Channel.pair()
            passed.callback(theirs.close)
            try:
                self._spawner.send(message, [theirs.fileno(), *descriptors], ordinary=False)
            except BaseException:
                ours.close()
                raise
        if not self._meet(ours):
            self._log_crash()
            raise SystemFailure(f"the {self._kind.name}, which {self._kind.deed}, cannot be started")
        self._put_all(but)

    def _try_to_begin(self) -> None:
        """Start another process for all runs. A failure is logged: the next container that needs it tries again."""
        try:
            self._begin()
        except EngineError as error:
            log.error("%s: %s", self._kind.harm, error)

    def _find(self) -> bool:
        """Connect to an earlier daemon's process; whether it has answered. One that does not is killed."""
        self._log_crash()
        try:
            connection = endpoint.connect(self._exec_root, _SECONDS, self._kind.socket)
        except OSError:
            return False
        pid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
        if self._meet(Channel(connection)):
            return True
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended by itself
            signalling.kill_and_wait(pid, syscalls.process_start(pid), _KILLED_SECONDS)
        return False

    def _meet(self, link: Channel) -> bool:
        """Receive a process's greeting; whether one has come. Else the link is closed."""
        link.socket.settimeout(_SECONDS)
        try:
            process = self._greeting(link)
        except (OSError, ValueError, EngineError):
            process = None
        if process is None:
            link.close()
            return False
        self._link, self._process = link, process
        self._links.on_end(link.fileno(), lambda: later(self._revive, link))
        return True

    def _lose(self, link: Channel) -> None:
        """Close the link and kill the process: one that hangs would stand in the way of the next."""
        self._links.off_end(link.fileno())
        link.close()
        self._link = None
        signalling.kill_and_wait(*self._process, _KILLED_SECONDS)

    def _revive(self, link: Channel) -> None:
        """The link has ended: start another process where there are containers to serve."""
        with self._lock:
            if self._link is not link:
                return
            self._lose(link)
            self._drop_ended()
            if self._told:
                log.warning("the %s has died; another is started", self._kind.name)
                self._try_to_begin()
            else:
                log.debug("the %s has ended, as it served no container", self._kind.name)
                self._log_crash()

    def _drop_ended(self) -> None:
        """Forget the runs whose process has ended: no other process is needed for them."""
        for container, told in list(self._told.items()):
            with signalling.opened(told.pid, told.pid_start) as pidfd:
                if pidfd is None:
                    del self._told[container]

    def _log_crash(self) -> None:
        text = exitfile.read(self._exec_root, self._kind.crash)
        if text is not None:
            log.error("the %s has failed: %s", self._kind.name, text.decode("utf-8", "replace"))
            os.unlink(os.path.join(self._exec_root, self._kind.crash))
