"""The resolver's state: the containers that it serves, the daemon's messages on its link, and when the process ends.

One process for each daemon, one thread. It needs the daemon only to learn of containers. With the daemon gone it goes
on answering, sees by itself when a container has ended, and a new daemon finds it by its socket in the exec root. It
ends when it serves no container: at once without a daemon, else after a while, because the next container may be about
to come.
"""

import errno
import os
import resource
from collections.abc import Callable

from engine.errors import Invalid
from engine.kernel import reasons, syscalls
from engine.resolver.forward import MOST_WAITING, Forwarder
from engine.resolver.loop import Loop
from engine.resolver.served import Served
from engine.resolver.servers import HostServers, addresses
from engine.resolver.zones import View, Zone
from engine.wire import endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import Forget, Message, Place, Resolves, Serve
from engine.wire.schema import Served as Done

LINGER_SECONDS = 20.0
_LINK_SECONDS = 5.0  # the time a daemon has to read a message; after that its link is closed
_DESCRIPTORS = 5  # of one container
_UNLIMITED = 1 << 20
_MOST_FAILURES = 1000


class Resolver:
    """All containers that are served, and the link to the daemon."""

    def __init__(self, exec_root: str, link: Channel) -> None:
        """Listens for later daemons, in place of a resolver that has died. Raises OSError."""
        self._loop = Loop(self._failed)
        self._failures = 0
        self._exec_root = exec_root
        self._limit = _lift_descriptors()
        self._forwarder = Forwarder(self._loop, HostServers(), min(MOST_WAITING, self._limit // 8))
        self._path = os.path.join(exec_root, endpoint.RESOLVER)
        self._served: dict[str, tuple[int, Served]] = {}
        self._places: dict[str, tuple[Place, ...]] = {}
        self._zones: dict[str, Zone] = {}
        self._link: Channel | None = None
        # Held open so that /proc shows which exec root this resolver belongs to.
        self._home = os.open(exec_root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._pid = os.getpid(), syscalls.process_start(os.getpid())
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass  # the usual case
        self._listener = endpoint.listen(exec_root, endpoint.RESOLVER)
        os.chmod(self._path, 0o600)
        self._loop.add(self._listener.fileno(), lambda _: self._meet())
        self._greet(link)

    def run(self) -> None:
        """Answer until no container is served any more."""
        self._loop.run()
        os.unlink(self._path)

    def _failed(self) -> bool:
        """Record an unforeseen exception in the handling of one container, which must not end the names of all the
        others.

        Returns whether there were too many of them.
        """
        self._failures += 1
        if self._failures == 1:
            exitfile.write_crash(self._exec_root, exitfile.RESOLVER_CRASH)
        return self._failures > _MOST_FAILURES

    def _meet(self) -> None:
        """Accept a connection of a new daemon, which replaces the earlier daemon."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the daemon has gone again
            return
        self._greet(Channel(connection))

    def _greet(self, link: Channel) -> None:
        self._part()
        link.socket.settimeout(_LINK_SECONDS)
        self._link = link
        self._loop.add(link.fileno(), lambda _: self._told(link))
        self._tell(link, Resolves(*self._pid, tuple((container, run) for container, (run, _) in self._served.items())))

    def _part(self) -> None:
        """Close the link to the daemon."""
        if self._link is not None:
            self._loop.drop(self._link.fileno())
            self._link.close()
            self._link = None

    def _tell(self, link: Channel, message: Message) -> None:
        try:
            link.send(message)
        except OSError:  # the daemon has gone, or reads nothing
            self._part()
        self._end_if_idle()

    def _told(self, link: Channel) -> None:
        """Carry out one message of the daemon, or take note of the end of its link."""
        try:
            received = link.receive()
        except Invalid as error:  # not all descriptors arrived, because this process has no room for them
            self._tell(link, Done(str(error)))
            return
        except OSError:
            received = None
        if received is None:
            self._part()
            self._end_if_idle()
            return
        message, descriptors = received
        text = ""
        if isinstance(message, Serve):
            text = self._serve(message, descriptors)
        elif isinstance(message, Forget):
            self._forget(message.container)
        else:
            text = f"unexpected message for the resolver: {type(message).__name__}"
        self._tell(link, Done(text))

    def _serve(self, asked: Serve, descriptors: list[int]) -> str:
        """Begin to serve a container, or change what it and the others see; returns empty, or why it failed."""
        run, served = self._served.get(asked.container, (0, None))
        if served is None or run != asked.pid_start:
            self._forget(asked.container)
            try:
                served = self._begin(descriptors, lambda: self._forget(asked.container, asked.pid_start))
            except OSError as error:
                return f"127.0.0.11 cannot be served in the container's network: {reasons.whole(error)}"
            self._served[asked.container] = asked.pid_start, served
        else:
            for descriptor in descriptors:
                os.close(descriptor)
        self._place(asked.container, asked.places)
        served.view = View([(self._zones[place.network], place) for place in asked.places])
        served.asker.servers = addresses(asked.servers)
        served.forwards, served.dotted = asked.forwards, asked.dotted
        return ""

    def _begin(self, descriptors: list[int], ended: Callable[[], None]) -> Served:
        # The other half is for connections, and for forwarded queries.
        if (len(self._served) + 1) * _DESCRIPTORS > self._limit // 2:
            for descriptor in descriptors:
                os.close(descriptor)
            raise OSError(errno.EMFILE, f"the resolver may have {self._limit} open files")
        network, pidfd = descriptors
        return Served(self._loop, self._forwarder, network, pidfd, ended)

    def _place(self, container: str, places: tuple[Place, ...]) -> None:
        """Put the container into these networks, and into no others."""
        for network in {place.network for place in self._places.pop(container, ())} - {each.network for each in places}:
            zone = self._zones[network]
            zone.remove(container)
            if not zone:
                del self._zones[network]
        for place in places:
            self._zones.setdefault(place.network, Zone()).put(container, place)
        if places:
            self._places[container] = places

    def _forget(self, container: str, run: int = 0) -> None:
        """Stop serving a container, and remove its names.

        run: only if this is the run that is served
        """
        served = self._served.get(container)
        if served is None or (run and run != served[0]):
            return
        del self._served[container]
        served[1].close()
        self._place(container, ())
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._served:
            return
        if self._link is None:
            self._loop.ended = True
        else:
            self._loop.after(LINGER_SECONDS, self._end_if_still_idle)

    def _end_if_still_idle(self) -> None:
        self._loop.ended = self._loop.ended or not self._served


def _lift_descriptors() -> int:
    """Raise the soft limit of open files to the hard limit, and return it.

    Every container takes some descriptors, and the usual soft limit is meant for programs that use select(2).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else _UNLIMITED
