"""A network and a mount namespace that outlive the daemons in them, as a host outlives its daemon.

One sleeping process holds both; whatever a test starts "on the host" (daemon, registry) is started inside with
`nsenter`. Nothing in here touches the machine's own network.
"""

import contextlib
import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence

from tests.harness.pace import patient

CLONE_NEWNET = 0x40000000
KEEPER = "ip link set lo up && echo ready && exec sleep 86400"


class Namespaces:
    """One pair of namespaces with the loopback device up; a context manager."""

    def __init__(self, keeper: str = KEEPER) -> None:
        """keeper: what the shell does that holds them; it says `ready` once they can be used."""
        self.keeper = subprocess.Popen(
            ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", keeper],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if self.keeper.stdout.readline() != b"ready\n":
            raise RuntimeError("no namespaces: unshare(1) or ip(8) failed, see the text above")
        self.pid = self.keeper.pid

    def __enter__(self) -> "Namespaces":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the namespaces go; the kernel takes them away with their last process."""
        self.keeper.kill()
        self.keeper.wait()
        self.keeper.stdout.close()

    def command(self, argv: Sequence[str]) -> list[str]:
        """`argv`, to be run inside; the process keeps its pid through nsenter(1)."""
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--", *argv]

    def links(self) -> set[str]:
        """The names of the network devices inside."""
        with open(f"/proc/{self.pid}/net/dev") as lines:
            return {line.split(":")[0].strip() for line in lines if ":" in line}

    def mounts(self) -> set[str]:
        """The mount points inside."""
        with open(f"/proc/{self.pid}/mountinfo") as lines:
            return {line.split()[4] for line in lines}

    def connect(self, port: int, timeout: float = 60.0) -> socket.socket:
        """A TCP connection to the loopback address inside. Waits for the listener as long as `timeout` seconds."""
        end = time.monotonic() + patient(timeout)
        while True:
            connection = self.socket()
            try:
                connection.connect(("127.0.0.1", port))
            except ConnectionRefusedError:
                connection.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)  # a listener of somebody else's program: there is no event to wait for
            else:
                return connection

    def socket(self, kind: int = socket.SOCK_STREAM, family: int = socket.AF_INET) -> socket.socket:
        """A TCP (or UDP, or other) socket that belongs to the network inside."""
        return socket_of(self.pid, family, kind)


@contextlib.contextmanager
def entered(pid: int) -> Iterator[None]:
    """This thread, and the programs that it starts, in the network of a process; setns(2) moves no other thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        inside = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(inside, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                if libc.setns(home, CLONE_NEWNET):
                    os._exit(70)  # a test process in the wrong network must not go on
        finally:
            os.close(inside)
    finally:
        os.close(home)


def socket_of(pid: int, family: int, kind: int) -> socket.socket:
    """A socket that belongs to a process's network."""
    with entered(pid):
        return socket.socket(family, kind)
