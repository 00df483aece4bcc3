"""A daemon that dies, or halts, at a step of its work that the test chooses: `python -m tests.harness.mortal daemon`.

Run as a process of its own in the place of `python -m engine`. The engine knows nothing of it: Python's audit events
(PEP 578) tell of what it does to the kernel (messages to netlink, the spawner and the resolver, files made, written and
removed, sockets bound), and each transaction of the database counts at its beginning and at its end. While the file
`ORDERS` names is there, steps are counted; at the number that stands in it the process ends itself with SIGKILL, or,
with the word `halt` behind the number, stops itself until SIGCONT.
"""

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator

ORDERS = "ENGINE_TEST_ORDERS"
"""The variable that names the file: a number, counted down from when it is first seen, and perhaps `halt`."""

_STEPS = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "socket.bind", "socket.sendto", "socket.sendmsg"})
_WRITES = os.O_WRONLY | os.O_RDWR
_PASSED_OVER = "/sys/fs/cgroup"  # a dozen directories for each container, one like the other


class Death:
    """The countdown of one daemon; `steps` are told to the file beside the orders."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._daemon = 0
        self._left = 0
        self._signal = signal.SIGKILL
        self._given = 0  # when the orders were, that are counted down

    def arm(self) -> None:
        """This process is the daemon: what its children do is no step."""
        self._daemon = os.getpid()

    def heard(self, event: str, arguments: tuple) -> None:
        """An audit event: it comes before what it tells of is done."""
        path = arguments[0] if arguments else None
        if event in _STEPS and not str(path).startswith(_PASSED_OVER):
            self.step(f"{event} {path}" if isinstance(path, str) else event)
        elif event == "open" and isinstance(path, str) and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            self.step(f"{event} {path}")

    def step(self, what: str) -> None:
        """One step of the daemon's work is about to be made."""
        if os.getpid() != self._daemon:
            return
        self._daemon = 0  # what is done in here is no step
        try:
            with open(self._path) as orders:
                fcntl.flock(orders, fcntl.LOCK_SH)  # who takes them away waits for the steps that have seen them
                found = os.fstat(orders.fileno())
                if found.st_nlink:
                    if self._given != found.st_ctime_ns:
                        number, _, word = orders.read().partition(" ")
                        self._left, self._signal = int(number), signal.SIGSTOP if word else signal.SIGKILL
                        self._given = found.st_ctime_ns
                    self._obey(what)
        except FileNotFoundError:
            pass  # it may live
        finally:
            self._daemon = os.getpid()

    def _obey(self, what: str) -> None:
        with open(f"{self._path}.steps", "a") as told:
            told.write(f"{what}\n")
        self._left -= 1
        if self._left == -1:
            os.kill(os.getpid(), self._signal)


def main() -> int:
    """Be the engine's daemon, mortal."""
    death = Death(os.environ[ORDERS])
    from engine import __main__ as door
    from engine.daemon import main as daemon
    from engine.daemon.store.database import Database
    from engine.wire.channel import Channel

    run, transaction, send = daemon.run, Database.transaction, Channel.send

    def armed(*arguments: object) -> int:
        death.arm()
        return run(*arguments)

    @contextlib.contextmanager
    def watched(database: Database, *arguments: bool, **durability: bool) -> Iterator[object]:
        death.step("begin")
        with transaction(database, *arguments, **durability) as connection:
            yield connection
        death.step("committed")

    def told(channel: Channel, message: object, *arguments: object, **options: object) -> None:
        death.step(f"send {type(message).__name__}")
        send(channel, message, *arguments, **options)

    daemon.run, Database.transaction, Channel.send = armed, watched, told
    sys.addaudithook(death.heard)
    return door.main()


if __name__ == "__main__":
    sys.exit(main())
