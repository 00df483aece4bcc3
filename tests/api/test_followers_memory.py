"""What followers of a log that read nothing cost, and that the daemon gives it back when they have gone."""

import contextlib
import fcntl
import re
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.listening import until

FOLLOWERS = 50
LINES = 20_000
SCRIPT = f"yes 'a line of a log that is about one hundred bytes long, as the lines of many logs are' | head -n {LINES}"
MOST = 1024  # KiB for each of them
HELD = 100_000  # bytes that wait for a client, at which the daemon has more for it than there is room for


def memory(daemon: Daemon) -> int:
    """The daemon's own memory in KiB, without the libraries, whose share depends on who else runs."""
    return int(re.search(r"Pss_Anon:\s+(\d+) kB", Path(f"/proc/{daemon.pid}/smaps_rollup").read_text()).group(1))


def unread(connection: Connection) -> int:
    """How many bytes have come that nobody has read."""
    return int.from_bytes(fcntl.ioctl(connection.socket, termios.FIONREAD, bytes(4)), "little")


@contextlib.contextmanager
def followed(daemon: Daemon, container: str, count: int) -> Iterator[None]:
    """So many followers, each of whom has been sent what it takes without reading."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(daemon.connection()) for _ in range(count)]
        for each in connections:
            each.send_request("GET", f"/containers/{container}/logs?stdout=1&follow=1")
        until(lambda: all(unread(each) > HELD for each in connections))
        yield


@pytest.mark.parametrize("driver", ["local", "json-file"])
def test_it_comes_back_within_a_tenth(own_daemon: Daemon, driver: str) -> None:
    log = {"Type": driver, "Config": {}}
    script = f"{SCRIPT}; echo end; exec sleep 600"
    one = own_daemon.create("sh", "-c", script, HostConfig={"NetworkMode": "none", "LogConfig": log})
    own_daemon.begin(one)
    until(lambda: own_daemon.logs(one, "stdout=1&tail=1").endswith(b"end\n"))
    with followed(own_daemon, one, 1):
        pass
    before = memory(own_daemon)
    with followed(own_daemon, one, FOLLOWERS):
        most = memory(own_daemon)
    until(lambda: memory(own_daemon) <= 1.1 * before)
    assert most < before + FOLLOWERS * MOST
