"""A daemon with live-restore off stops its containers with itself, as dockerd does, and leaves nothing on the host."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.harness import leaks
from tests.harness.amounts import amount
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.listening import until
from tests.harness.pace import patient

pytestmark = [pytest.mark.seldom, pytest.mark.usefixtures("busybox")]

TRAPS = "trap 'echo told; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
OFF = "--live-restore=false"
MANY = amount(20, 3)


@pytest.fixture
def ending(world) -> Iterator[Daemon]:
    """A daemon that stops its containers with itself, with busybox."""
    with running(world.daemon([OFF, "--default-stop-timeout=1"])) as daemon:
        daemon.import_busybox()
        yield daemon


def begun(daemon: Daemon, script: str = TRAPS, policy: str = "no", **host: object) -> str:
    """A container that runs and has said `ready`."""
    host = {"NetworkMode": "none", "RestartPolicy": {"Name": policy}, **host}
    one = daemon.create("sh", "-c", script, HostConfig=host)
    daemon.begin(one)
    until(lambda: b"ready" in daemon.logs(one))
    return one


def processes(title: str) -> list[int]:
    """Those that are called so."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as line:
            if line.read().startswith(title):
                found.append(int(pid))
    return found


def state(daemon: Daemon, one: str) -> dict:
    """The State of its inspect."""
    return daemon.inspect(one)["State"]


def test_a_stop_of_the_daemon_stops_each_with_its_signal_and_its_time(ending: Daemon) -> None:
    assert ending.request("GET", "/info").json()["LiveRestoreEnabled"] is False
    polite, deaf = begun(ending), begun(ending, DEAF)
    pids = [state(ending, one)["Pid"] for one in (polite, deaf)]
    ending.stop()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    ending.start()
    assert [state(ending, one)["ExitCode"] for one in (polite, deaf)] == [7, 137]
    assert ending.logs(polite).endswith(b"told\n")


def test_the_end_of_the_daemon_waits_for_a_container_as_long_as_shutdown_timeout_says(world) -> None:
    """For one whose end nobody tells: its monitor was halted. Without the option it would be given up after 5 seconds.

    The wait of a negative number ends when the monitor goes on, and the exit code is not lost.
    """
    for number in ("7", "-1"):
        daemon = world.daemon([OFF, "--default-stop-timeout=0", f"--shutdown-timeout={number}"]).start()
        daemon.import_busybox()
        one = begun(daemon, DEAF)
        (monitor,) = processes(f"engine monitor {one[:12]}")
        os.kill(monitor, signal.SIGSTOP)
        began = time.monotonic()
        daemon.process.terminate()
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                daemon.process.wait(6.5)
            if number == "7":
                daemon.process.wait(patient(20))
                assert 7 <= time.monotonic() - began < 7 + patient(5)
                assert f"container {one[:12]}" in daemon.log and "did not end after SIGKILL" in daemon.log
        finally:
            os.kill(monitor, signal.SIGCONT)
        assert daemon.process.wait(patient(20)) == 0
        daemon.start()
        assert state(daemon, one)["ExitCode"] == 137
        daemon.close()


@pytest.mark.parametrize(
    ("policy", "by_hand", "again"),
    [
        ("always", False, True),
        ("always", True, True),
        ("unless-stopped", False, True),
        ("unless-stopped", True, False),
        ("on-failure", False, True),
        ("no", False, False),
    ],
)
def test_the_next_daemon_starts_what_its_policy_wants(ending: Daemon, policy: str, by_hand: bool, again: bool) -> None:
    one = begun(ending, policy=policy)
    if by_hand:
        assert ending.request("POST", f"/containers/{one}/stop").status == 204
    ending.restart()
    if again:
        until(lambda: state(ending, one)["Running"])
    else:
        assert state(ending, one)["Status"] == "exited"


def test_what_a_killed_daemon_has_left_is_stopped_by_the_next_and_started_by_its_policy(ending: Daemon) -> None:
    left, kept = begun(ending), begun(ending, policy="always")
    before = state(ending, kept)["Pid"]
    ending.kill9()
    ending.start()
    assert state(ending, left) | {"Status": "exited", "ExitCode": 7} == state(ending, left)
    until(lambda: state(ending, kept)["Pid"] not in (0, before))
    after = state(ending, kept)["Pid"]
    os.kill(after, signal.SIGKILL)  # its policy counts as before
    until(lambda: state(ending, kept)["Pid"] not in (0, after))


def test_a_container_that_was_to_be_removed_at_its_end_is(ending: Daemon) -> None:
    one = begun(ending, AutoRemove=True)
    ending.restart()
    until(lambda: ending.request("GET", f"/containers/{one}/json").status == 404)


def test_many_daemons_started_and_ended_in_turn_leave_nothing_on_the_host(world) -> None:
    """Each with roots of its own, and with a container that has a name, a port and an address.

    Processes, mounts, devices, tables of the firewall and cgroups are those of before; a network namespace lives only
    by a process or a mount.
    """
    machine = world.machine()
    token, links, points = os.environ[leaks.TOKEN_VARIABLE], machine.links(), machine.mounts()
    # By number: the machine's own process may still be the shell that is about to become its sleep.
    alive = {pid for pid, _ in leaks.processes(token, world.root, set())}
    made: list[str] = []

    def left() -> list[str]:
        found = [f"process {pid}: {command}" for pid, command in leaks.processes(token, world.root, alive)]
        found += [f"mount {each} on the machine" for each in machine.mounts() - points]
        found += [f"device {each}" for each in machine.links() - links]
        found += [f"table {each}" for each in leaks.tables(machine)]
        found += [each for each in leaks.all_cgroups() if any(one in each for one in made)]
        return [*found, *leaks.mounts(world.root)]

    daemons = [world.daemon([OFF, "--default-stop-timeout=0"], machine) for _ in range(MANY)]
    for number, daemon in enumerate(daemons):
        daemon.start()
        daemon.import_busybox()
        network = daemon.request("POST", "/networks/create", {"Name": "own"}).json()["Id"]
        published = {"80/tcp": [{"HostPort": str(8000 + number)}]}
        made.append(begun(daemon, NetworkMode=network, PortBindings=published))
    assert len(left()) > 5 * MANY  # daemon, spawner, monitor, container, veth, bridge, ...: it is looked for
    for daemon in daemons:
        daemon.stop()
    assert not leaks.settled(left)
