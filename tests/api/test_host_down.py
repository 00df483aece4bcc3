"""The host goes down: containers are stopped with their own signal and time, and the next boot's daemon starts them."""

import os
import signal
import socket
import time

import pytest

from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

TRAPS = "trap 'echo told; exit 7' {}; echo ready; while :; do sleep 0.05; done"


def begun(daemon: Daemon, *argv: str, policy: str = "no", **body: object) -> str:
    """A container that runs and has said `ready`."""
    host = {"RestartPolicy": {"Name": policy}}
    one = daemon.create(*argv, HostConfig=host, **body)
    daemon.begin(one)
    until(lambda: b"ready" in daemon.logs(one))
    return one


def goes_down(daemon: Daemon) -> int:
    """Tell the daemon that the host goes down; its exit status."""
    daemon.process.send_signal(signal.SIGPWR)
    status = daemon.process.wait(60)
    daemon.process = None
    return status


def state(daemon: Daemon, one: str) -> dict:
    """The State of its inspect."""
    return daemon.inspect(one)["State"]


def test_each_gets_its_own_signal_and_its_code_is_kept(own_daemon: Daemon) -> None:
    polite = begun(own_daemon, "sh", "-c", TRAPS.format("TERM"))
    special = begun(own_daemon, "sh", "-c", TRAPS.format("USR2"), StopSignal="SIGUSR2")
    deaf = begun(own_daemon, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done", StopTimeout=1)
    paused = begun(own_daemon, "sh", "-c", TRAPS.format("TERM"))
    assert own_daemon.request("POST", f"/containers/{paused}/pause").status == 204
    pids = [state(own_daemon, one)["Pid"] for one in (polite, special, deaf, paused)]
    assert goes_down(own_daemon) == 0
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    own_daemon.start()
    codes = [state(own_daemon, one)["ExitCode"] for one in (polite, special, deaf, paused)]
    assert codes == [7, 7, 137, 7]
    assert own_daemon.logs(polite).endswith(b"told\n")
    assert {state(own_daemon, one)["Status"] for one in (polite, special, deaf, paused)} == {"exited"}


@pytest.mark.parametrize(
    ("policy", "by_hand", "again"),
    [
        ("always", False, True),
        ("unless-stopped", False, True),
        ("unless-stopped", True, False),
        ("on-failure", False, True),
        ("no", False, False),
    ],
)
def test_the_next_daemon_starts_what_its_policy_wants(
    own_daemon: Daemon, policy: str, by_hand: bool, again: bool
) -> None:
    one = begun(own_daemon, "sh", "-c", TRAPS.format("TERM"), policy=policy)
    if by_hand:
        assert own_daemon.request("POST", f"/containers/{one}/stop").status == 204
    goes_down(own_daemon)
    own_daemon.start()
    if again:
        until(lambda: state(own_daemon, one)["Running"])
    else:
        assert state(own_daemon, one)["ExitCode"] == 7
        assert not state(own_daemon, one)["Running"]


def test_what_waits_for_its_next_run_is_not_run_before_the_host_is_up(own_daemon: Daemon) -> None:
    one = own_daemon.create("sh", "-c", "exit 1", HostConfig={"RestartPolicy": {"Name": "always"}})
    own_daemon.begin(one)
    until(lambda: own_daemon.inspect(one)["RestartCount"] >= 2)
    assert goes_down(own_daemon) == 0
    own_daemon.start()
    until(lambda: own_daemon.inspect(one)["RestartCount"] >= 1)


def test_the_service_manager_hears_how_long_it_may_take(world, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = world.daemon()
    where = world.directory() / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(where))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(where))
        with running(daemon):
            assert manager.recv(1000) == b"READY=1"
            daemon.process.send_signal(signal.SIGHUP)
            assert manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert manager.recv(1000) == b"READY=1"
            daemon.import_busybox()
            begun(daemon, "sh", "-c", TRAPS.format("TERM"), StopTimeout=100)
            before = time.monotonic()
            assert goes_down(daemon) == 0
            assert time.monotonic() - before < 60
            assert manager.recv(1000) == b"STOPPING=1"
            assert manager.recv(1000) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=110000000"
            daemon.start()
            assert [one["State"] for one in daemon.request("GET", "/containers/json?all=1").json()] == ["exited"]
