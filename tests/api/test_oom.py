"""Running out of memory: seen when it happens, told as an event, kept in the state."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import execs
from tests.harness.daemon import Daemon
from tests.harness.listening import listening, past, until

pytestmark = pytest.mark.usefixtures("busybox")

LIMITED = {"HostConfig": {"NetworkMode": "none", "Memory": 8 << 20, "MemorySwap": 8 << 20}}
GREEDY = "x=a; while :; do x=$x$x; done"


@pytest.fixture(autouse=True)
def memory(daemon: Daemon) -> None:
    """Only where memory can be limited."""
    if not daemon.request("GET", "/info").json()["MemoryLimit"]:
        pytest.skip("needs the memory controller")


def actions(daemon: Daemon, container: str) -> list[str]:
    """What was told of the container."""
    return [event["Action"] for event in past(daemon, filters={"container": [container]})]


def test_process_1_is_killed(daemon: Daemon, container: Callable[..., str]) -> None:
    """`oom` comes before `die`, once, and inspect says OOMKilled."""
    one = container("sh", "-c", GREEDY, **LIMITED)
    daemon.begin(one)
    assert daemon.wait(one) == 137
    assert actions(daemon, one) == ["create", "start", "oom", "die"]
    state = daemon.inspect(one)["State"]
    assert (state["OOMKilled"], state["Status"], state["ExitCode"]) == (True, "exited", 137)


def test_a_child_is_killed_and_the_container_runs_on(daemon: Daemon, container: Callable[..., str]) -> None:
    """It is told at that moment, not only at the end; the end's own code is kept."""
    script = f"sh -c '{GREEDY}'; echo killed $?; read line; exit 3"
    one = container("sh", "-c", script, OpenStdin=True, **LIMITED)
    with listening(daemon, filters={"container": [one]}) as listener:
        daemon.begin(one)
        listener.until("oom")
        state = daemon.inspect(one)["State"]
        assert (state["OOMKilled"], state["Status"]) == (True, "running")
        assert listener.seen[-1]["Actor"]["Attributes"].keys() == {"image", "name"}
    daemon.request("POST", f"/containers/{one}/kill")
    daemon.wait(one)
    assert daemon.inspect(one)["State"]["OOMKilled"]
    assert actions(daemon, one).count("oom") == 1


def test_the_next_run_begins_without_it(daemon: Daemon, container: Callable[..., str]) -> None:
    """And is watched as the first one was."""
    one = container("sh", "-c", f"[ -e /again ] && sleep 60; touch /again; {GREEDY}", **LIMITED)
    daemon.begin(one)
    daemon.wait(one)
    assert daemon.inspect(one)["State"]["OOMKilled"]
    daemon.begin(one)
    assert not daemon.inspect(one)["State"]["OOMKilled"]
    made = daemon.request("POST", f"/containers/{one}/exec", {"Cmd": ["sh", "-c", GREEDY]}).json()["Id"]
    assert daemon.request("POST", f"/exec/{made}/start", {"Detach": True}).status == 200
    until(lambda: not execs.inspect(daemon, made)["Running"])
    assert execs.inspect(daemon, made)["ExitCode"] == 137
    until(lambda: actions(daemon, one).count("oom") >= 2)
    assert daemon.inspect(one)["State"]["OOMKilled"] and daemon.inspect(one)["State"]["Running"]


def test_a_limit_that_comes_later_is_watched_too(daemon: Daemon, container: Callable[..., str]) -> None:
    """A container that was started without one."""
    one = container("sh", "-c", f"while [ ! -e /go ]; do sleep 0.05; done; sh -c '{GREEDY}'; sleep 60")
    daemon.begin(one)
    limit = {"Memory": 8 << 20, "MemorySwap": 8 << 20}
    assert daemon.request("POST", f"/containers/{one}/update", limit).status == 200
    Path(f"/proc/{daemon.inspect(one)['State']['Pid']}/root/go").touch()
    until(lambda: "oom" in actions(daemon, one))
    assert daemon.inspect(one)["State"]["OOMKilled"] and daemon.inspect(one)["State"]["Running"]


def test_an_end_that_has_nothing_to_do_with_memory(daemon: Daemon, container: Callable[..., str]) -> None:
    """SIGKILL alone is no sign of it, and neither is the removal of the cgroup."""
    one = container("sleep", "60", **LIMITED)
    daemon.begin(one)
    daemon.request("POST", f"/containers/{one}/kill")
    assert daemon.wait(one) == 137
    assert actions(daemon, one) == ["create", "start", "kill", "die"]
    assert not daemon.inspect(one)["State"]["OOMKilled"]


def test_what_happens_between_two_daemons_is_told_by_the_second(own_daemon: Daemon) -> None:
    """And what the first one told is not told again."""
    first = own_daemon.create("sh", "-c", f"sh -c '{GREEDY}'; sleep 60", **LIMITED)
    waiting = f"while [ ! -e /go ]; do sleep 0.05; done; sh -c '{GREEDY}'; sleep 60"
    second = own_daemon.create("sh", "-c", waiting, **LIMITED)
    for each in (first, second):
        own_daemon.begin(each)
    until(lambda: own_daemon.inspect(first)["State"]["OOMKilled"])
    pid = own_daemon.inspect(second)["State"]["Pid"]
    own_daemon.kill9()
    Path(f"/proc/{pid}/root/go").touch()
    until(lambda: "oom_kill 1" in killed(pid))
    own_daemon.start()
    assert own_daemon.inspect(second)["State"]["OOMKilled"] and actions(own_daemon, second) == ["oom"]
    assert own_daemon.inspect(first)["State"]["OOMKilled"] and actions(own_daemon, first) == []


def killed(pid: int) -> str:
    """memory.oom_control of the cgroup that a process is in."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path(f"/sys/fs/cgroup/memory{path}/memory.oom_control").read_text()
    pytest.skip("needs cgroup version 1")
