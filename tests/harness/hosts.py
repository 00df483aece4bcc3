"""Machines beside the daemon's, made of network namespaces: each has a cable of its own into the daemon's network.

Run by the test process. A `Host` is there for a `with` and touches nothing but its own namespaces and its end of the
cable. What speaks and what listens in a test are threads of the test process with sockets that belong to the network in
question (a host's, the daemon's, a container's), so nothing needs to be installed there.
"""

import contextlib
import itertools
import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterator

from tests.harness.namespaces import Namespaces, socket_of
from tests.harness.pace import patient

_numbers = itertools.count(1)
_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
_LARGEST = 1 << 16


def _batch(place: Namespaces, *lines: str) -> None:
    """Have ip(8) do these things in a network, in one process."""
    text = "\n".join(lines) + "\n"
    done = subprocess.run(place.command(["ip", "-batch", "-"]), input=text, capture_output=True, text=True)
    assert done.returncode == 0, (lines, done.stderr)


class Inside:
    """The network that a process is in: a container's, by its process 1."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def socket(self, kind: int = socket.SOCK_STREAM, family: int = socket.AF_INET) -> socket.socket:
        """A socket that belongs to it, and that keeps it alive."""
        return socket_of(self.pid, family, kind)


class Host(Namespaces):
    """A machine that the daemon's is the gateway of; a context manager.

    beside: the daemon's namespaces; link: this host's cable's end in there; its own end is `eth0`
    address, address6: its own; gateway, gateway6: the daemon's end
    """

    def __init__(self, beside: Namespaces) -> None:
        number = next(_numbers)
        # Nets that are nobody's (RFC 2544, RFC 3849), so no pool of an engine's meets them.
        self.beside = beside
        self.link = f"host{number}"
        self.gateway, self.address = f"198.18.{number}.1", f"198.18.{number}.2"
        self.gateway6, self.address6 = f"2001:db8:{number}::1", f"2001:db8:{number}::2"
        super().__init__()
        try:
            _batch(
                beside,
                f"link add {self.link} type veth peer name eth0 netns {self.keeper.pid}",
                f"addr add {self.gateway}/24 dev {self.link}",
                f"addr add {self.gateway6}/64 dev {self.link} nodad",
                f"link set {self.link} up",
            )
            _batch(
                self,
                f"addr add {self.address}/24 dev eth0",
                f"addr add {self.address6}/64 dev eth0 nodad",
                "link set eth0 up",
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Pull the cable and let the namespaces go."""
        command = self.beside.command(["ip", "link", "delete", self.link])
        subprocess.run(command, capture_output=True)  # of no matter when the cable was never laid
        super().close()

    def route(self, subnet: str) -> None:
        """Send what is for these addresses to the daemon's machine; without this a host knows its cable alone."""
        _batch(self, f"route add {subnet} via {self.gateway6 if ':' in subnet else self.gateway}")


def run(place: Namespaces, *argv: str, timeout: float = 60.0) -> subprocess.CompletedProcess:
    """Run a program on a host; its output as text."""
    return subprocess.run(place.command(argv), capture_output=True, text=True, timeout=patient(timeout))


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def ask(
    place: Namespaces | Inside, address: str, port: int, kind: str = "tcp", data: bytes = b"?", timeout: float = 20.0
) -> str:
    """What the server there answers: with `serving`, the address that it sees us at.

    address: one that is link-local has the number of our link behind a `%`
    Raises TimeoutError when nobody does, ConnectionRefusedError and other OSErrors as the network says.
    """
    with place.socket(_KINDS[kind], _family(address)) as client:
        client.settimeout(timeout)
        plain, _, zone = address.partition("%")
        client.connect((plain, port, 0, int(zone)) if zone else (address, port))
        client.send(data)
        return client.recv(_LARGEST).decode()


def reaches(place: Namespaces | Inside, address: str, port: int, kind: str = "tcp", timeout: float = 0.5) -> bool:
    """Whether anything comes back from there."""
    try:
        return bool(ask(place, address, port, kind, timeout=timeout))
    except OSError:  # refused, unreachable or silence: nothing has come back
        return False


class Server:
    """Listens while it is there, and answers each connection or datagram with the address that it comes from.

    port: where; seen: those addresses, in their order
    """

    def __init__(self, place: Namespaces | Inside, port: int, kind: str = "tcp", address: str = "0.0.0.0") -> None:
        self.seen: list[str] = []
        self._kind = kind
        self._socket = place.socket(_KINDS[kind], _family(address))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if _family(address) == socket.AF_INET6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self._socket.bind((address, port))
            if kind == "tcp":
                self._socket.listen(64)
        except BaseException:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._bell = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(self._socket, select.POLLIN)
        while all(descriptor != self._bell for descriptor, _ in poll.poll()):
            with contextlib.suppress(OSError):  # who goes away before the answer is not this server's trouble
                self._answer()

    def _answer(self) -> None:
        if self._kind == "udp":
            _, peer = self._socket.recvfrom(_LARGEST)
            self.seen.append(peer[0])
            self._socket.sendto(peer[0].encode(), peer)
            return
        client, peer = self._socket.accept()
        with client:
            self.seen.append(peer[0])
            client.settimeout(20.0)
            client.recv(_LARGEST)
            client.sendall(peer[0].encode())

    def close(self) -> None:
        """Stop listening."""
        os.eventfd_write(self._bell, 1)
        self._thread.join()
        os.close(self._bell)
        self._socket.close()


@contextlib.contextmanager
def serving(place: Namespaces | Inside, port: int = 0, kind: str = "tcp", address: str = "0.0.0.0") -> Iterator[Server]:
    """A server on a host or in a container's network, for the length of a `with`."""
    server = Server(place, port, kind, address)
    try:
        yield server
    finally:
        server.close()
