"""What is asked of an engine that falls asleep under systemd, the host's or a user's."""

import os
import signal
from collections.abc import Callable

from tests.guests.inside import Host

ONE_SECOND = "[Service]\nEnvironment=ENGINE_IDLE_EXIT=1\n"
"""What a file in `engine.service.d` says, so that the checks need not wait for a minute."""


def sleep_and_wake(host: Host, is_asleep: Callable[[], bool]) -> None:
    """A request wakes it, and a container that ends and is to run again; what runs goes on, nothing is lost.

    is_asleep: False, or AssertionError, while a daemon is there
    """

    def asleep() -> bool:
        try:
            return is_asleep()
        except AssertionError:
            return False

    one = host.begin("sleep", "10000", HostConfig={"RestartPolicy": {"Name": "always"}})
    host.until(asleep)
    before = host.inspect(one)["State"]
    assert before["Running"]
    host.until(asleep)
    os.kill(before["Pid"], signal.SIGKILL)
    host.until(lambda: (found := host.inspect(one))["State"]["Running"] and found["RestartCount"] == 1)
    host.remove(one)
    for _ in range(20):  # some of them while it ends
        assert host.answers()
