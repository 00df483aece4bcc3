"""A daemon killed with -9 between any two steps, and started again: no container notices, nothing is lost."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.wire import exitfile
from tests.harness import frames
from tests.harness.daemon import Daemon
from tests.harness.listening import until

STEPS = ("import", "create", "start", "wait", "logs", "remove")
KILLS = 10
# Says a line every few milliseconds until it is told that it was enough, then how many there were, and ends with 23.
TALKER = (
    "trap 'enough=1' USR1; i=0; while [ -z \"$enough\" ]; do i=$((i+1)); echo line $i; sleep 0.002; done; "
    "echo $i in all; exit 23"
)


def whole_talk(said: bytes) -> bytes:
    """All that the talker said, to go by its last words."""
    count = int(said.splitlines()[-1].removesuffix(b" in all"))
    return b"".join(b"line %d\n" % number for number in range(1, count + 1)) + b"%d in all\n" % count


def until_much_is_said(daemon: Daemon, container: str) -> None:
    """Return when the talker has said more than ten lines for each kill, on however slow a machine."""
    until(lambda: f"line {10 * KILLS + 1}\n".encode() in daemon.logs(container, "stdout=1"))


def crash(daemon: Daemon) -> None:
    """Kill the daemon, and only it, and start it again."""
    daemon.kill9()
    daemon.start()


@pytest.mark.parametrize("after", STEPS)
def test_a_crash_between_two_steps_loses_nothing(own_daemon: Daemon, after: str) -> None:
    """The flow goes on where it was, with the same ids, status and output."""
    daemon = own_daemon
    steps: dict[str, Callable[[], object]] = {
        "import": lambda: None,
        "create": lambda: daemon.create("sh", "-c", "sleep 0.5; echo out; echo err >&2; exit 3", name="steps"),
        "start": lambda: daemon.begin("steps"),
        "wait": lambda: daemon.wait("steps"),
        "logs": lambda: daemon.logs("steps"),
        "remove": lambda: daemon.remove("steps"),
    }
    results = {}
    for step in STEPS:
        results[step] = steps[step]()
        if step == after:
            crash(daemon)
    assert results["wait"] == 3
    assert frames.stdout(results["logs"]) == b"out\n"
    assert frames.stderr(results["logs"]) == b"err\n"
    assert daemon.request("GET", "/containers/json?all=1").json() == []
    assert daemon.request("GET", "/images/busybox/json").status == 200


def test_a_crash_after_every_step_loses_nothing(own_daemon: Daemon) -> None:
    """All of them in one flow."""
    daemon = own_daemon
    crash(daemon)
    script = "trap 'exit 7' USR1; echo hi; while :; do sleep 0.02; done"
    one = daemon.create("sh", "-c", script, name="every", Labels={"a": "b"})
    before = daemon.inspect(one)
    crash(daemon)
    assert daemon.inspect("every") == before
    daemon.begin(one)
    until(lambda: b"hi" in daemon.logs(one))  # only then does it obey
    running = daemon.inspect(one)
    crash(daemon)
    assert daemon.inspect(one) == running
    assert daemon.request("POST", f"/containers/{one}/kill?signal=USR1").status == 204
    assert daemon.wait(one) == 7
    ended = daemon.inspect(one)
    crash(daemon)
    assert daemon.inspect(one) == ended
    assert frames.stdout(daemon.logs(one)) == b"hi\n"
    daemon.remove(one)
    crash(daemon)
    assert daemon.request("GET", f"/containers/{one}/json").status == 404


def test_ten_crashes_while_a_container_talks(crashing: Daemon) -> None:
    """It never notices: same process, whole log, its exit status; an attached client gets every line to the end."""
    daemon = crashing
    one = daemon.create("sh", "-c", TALKER, name="talker")
    received: list[bytes] = []
    with daemon.connection(timeout=120) as client:
        client.hijack(f"/containers/{one}/attach?stream=1&stdout=1&stderr=1")
        reader = threading.Thread(target=lambda: received.append(client.read_to_end()))
        reader.start()
        daemon.begin(one)
        state = daemon.inspect(one)["State"]
        for _ in range(KILLS):
            crash(daemon)
            now = daemon.inspect(one)["State"]
            assert (now["Pid"], now["StartedAt"], now["Status"]) == (state["Pid"], state["StartedAt"], "running")
        until_much_is_said(daemon, one)
        assert daemon.request("POST", f"/containers/{one}/kill?signal=USR1").status == 204
        assert daemon.wait(one, timeout=60) == 23
        reader.join(timeout=30)
        assert not reader.is_alive(), "the attached client was not let go at the container's end"
    talk = whole_talk(frames.stdout(daemon.logs(one)))
    assert frames.stdout(received[0]) == frames.stdout(daemon.logs(one)) == talk
    assert talk.count(b"\n") > 10 * KILLS
    daemon.remove(one)


@pytest.mark.skipif(shutil.which("docker") is None, reason="needs the docker client")
def test_docker_attach_opened_before_the_kills_receives_every_line(crashing: Daemon) -> None:
    """The real client, left open over ten crashes. It is known to be attached when it shows a beat of the container."""
    daemon = crashing
    beats = "exec 3<&0; (read go <&3; touch /go) & while [ ! -e /go ]; do echo beat; sleep 0.02; done"
    one = daemon.create("sh", "-c", f"{beats}; {TALKER}", name="attached", OpenStdin=True)
    daemon.begin(one)
    command = ["docker", "attach", "--no-stdin", "attached"]
    with subprocess.Popen(command, env=daemon.environment, stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"beat\n"
        received: list[bytes] = []
        reader = threading.Thread(target=lambda: received.append(client.stdout.read()))
        reader.start()
        try:
            with daemon.connection() as starter:
                starter.hijack(f"/containers/{one}/attach?stream=1&stdin=1&stdout=1")
                starter.send(b"go\n")
                starter.read_until(b"line 1\n")
            for _ in range(KILLS):
                crash(daemon)
            until_much_is_said(daemon, one)
            assert daemon.request("POST", f"/containers/{one}/kill?signal=USR1").status == 204
            assert daemon.wait(one, timeout=60) == 23
            reader.join(timeout=30)
            assert not reader.is_alive(), "docker attach was not let go at the container's end"
        finally:
            client.kill()
    talk = whole_talk(received[0])
    assert received[0].removesuffix(talk).strip(b"beat\n") == b""
    assert received[0].endswith(talk) and talk.count(b"\n") > 10 * KILLS
    daemon.remove(one)


def test_a_container_that_ended_while_nobody_looked(crashing: Daemon) -> None:
    """Its status and its time of end are known afterwards."""
    daemon = crashing
    script = "trap 'echo last words; exit 9' USR1; echo up; while :; do sleep 0.02; done"
    one = daemon.create("sh", "-c", script)
    daemon.begin(one)
    until(lambda: b"up" in daemon.logs(one))  # only then does it obey
    pid = daemon.inspect(one)["State"]["Pid"]
    daemon.kill9()
    os.kill(pid, signal.SIGUSR1)
    until((daemon.exec_root / "containers" / one / exitfile.EXIT).exists)
    daemon.start()
    state = daemon.inspect(one)["State"]
    assert (state["Status"], state["ExitCode"], state["Pid"]) == ("exited", 9, 0)
    assert state["FinishedAt"] > state["StartedAt"]
    assert frames.stdout(daemon.logs(one)) == b"up\nlast words\n"
    daemon.remove(one)


def test_autoremove_is_kept_over_a_crash(crashing: Daemon) -> None:
    """Whether it ends while the daemon is away or later."""
    daemon = crashing
    quick = daemon.create("true", HostConfig={"AutoRemove": True, "NetworkMode": "none"})
    slow = daemon.create("sleep", "1", HostConfig={"AutoRemove": True, "NetworkMode": "none"})
    daemon.begin(slow)
    daemon.begin(quick)
    crash(daemon)
    until(lambda: not daemon.request("GET", "/containers/json?all=1").json())
    for one in (quick, slow):
        assert daemon.request("GET", f"/containers/{one}/json").status == 404


def test_verbs_work_on_an_adopted_container(crashing: Daemon) -> None:
    """kill, stop, attach, logs -f and remove, as before."""
    daemon = crashing
    script = "trap 'exit 5' TERM; trap 'echo usr1' USR1; echo ready; while :; do sleep 0.02; done"
    one = daemon.create("sh", "-c", script)
    daemon.begin(one)
    until(lambda: b"ready" in daemon.logs(one))  # only then does it obey
    crash(daemon)
    assert daemon.request("POST", f"/containers/{one}/kill?signal=USR1").status == 204
    with daemon.connection(timeout=10) as connection:
        connection.open_stream("GET", f"/containers/{one}/logs?stdout=1&follow=1")
        said = b""
        for chunk in connection.chunks():
            said += chunk
            if b"usr1" in said:
                break
    with daemon.connection(timeout=10) as client:
        client.hijack(f"/containers/{one}/attach?stream=1&stdout=1")
        assert daemon.request("POST", f"/containers/{one}/stop?t=10").status == 204
        assert frames.stdout(client.read_to_end()) in (b"", b"usr1\n")
    assert daemon.inspect(one)["State"]["ExitCode"] == 5
    daemon.begin(one)
    assert daemon.request("DELETE", f"/containers/{one}?force=1").status == 204


def test_a_monitor_that_is_stopped_does_not_hold_up_the_next_daemon(crashing: Daemon) -> None:
    """Its container runs on as far as anyone knows, and its end is heard once the monitor goes on."""
    daemon = crashing
    one, other = daemon.create("sleep", "600"), daemon.create("sleep", "600")
    daemon.begin(one)
    daemon.begin(other)
    monitor = monitor_of(daemon, one)
    os.kill(monitor, signal.SIGSTOP)
    try:
        os.kill(daemon.inspect(one)["State"]["Pid"], signal.SIGKILL)
        crash(daemon)
        assert daemon.inspect(one)["State"]["Running"] and daemon.inspect(other)["State"]["Running"]
    finally:
        os.kill(monitor, signal.SIGCONT)
    assert daemon.wait(one) == 137
    for each in (one, other):
        daemon.remove(each)


def monitor_of(daemon: Daemon, container: str) -> int:
    """The process that is the parent of the container's process 1, once the half that has launched it is gone."""
    pid = daemon.inspect(container)["State"]["Pid"]

    def parent() -> int:
        with open(f"/proc/{pid}/status") as status:
            found = int(next(line.split()[1] for line in status if line.startswith("PPid:")))
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return found if Path(f"/proc/{found}/comm").read_text() == "engine monitor\n" else 0
        return 0

    return until(parent)


@pytest.mark.parametrize("alive", [True, False], ids=["with a daemon", "without a daemon"])
def test_a_container_that_lost_its_monitor_says_so(crashing: Daemon, alive: bool) -> None:
    """Also where nobody looked; its exit code is lost with the monitor."""
    daemon = crashing
    one = daemon.create("sleep", "600")
    daemon.begin(one)
    monitor, pid = monitor_of(daemon, one), daemon.inspect(one)["State"]["Pid"]
    if not alive:
        daemon.kill9()
    os.kill(monitor, signal.SIGKILL)
    if not alive:
        daemon.start()
    assert daemon.wait(one) == 255
    until(lambda: not os.path.exists(f"/proc/{pid}"))  # also where no cgroup says what was the container's
    state = daemon.inspect(one)["State"]
    assert (state["Status"], state["Error"]) == (
        "exited",
        "the monitor of the container was lost, and its exit code with it",
    )
    daemon.begin(one)
    assert daemon.inspect(one)["State"]["Error"] == ""
    daemon.remove(one)


@pytest.mark.parametrize("alive", [True, False], ids=["with a daemon", "without a daemon"])
def test_a_monitor_that_has_crashed_is_reported(crashing: Daemon, alive: bool) -> None:
    """All that it has left stands in the log, beside its container; the last line of it in State.Error."""
    daemon = crashing
    one = daemon.create("sleep", "600", name="crashes")
    daemon.begin(one)
    monitor, said = monitor_of(daemon, one), len(daemon.log)
    if not alive:
        daemon.kill9()
    crash = daemon.exec_root / "containers" / one / exitfile.CRASH
    crash.write_text("  engine/monitor/life.py:1 in run\nKeyError: 'why'\n")
    os.kill(monitor, signal.SIGKILL)
    if not alive:
        daemon.start()
    assert daemon.wait(one) == 255
    said = daemon.log[said:]
    assert f"container {one[:12]} crashes: its monitor has crashed; the container is ended: " in said
    assert r"engine/monitor/life.py:1 in run\nKeyError: 'why'" in said
    assert daemon.inspect(one)["State"]["Error"].endswith(", and its exit code with it: KeyError: 'why'")
    daemon.remove(one)


def test_a_paused_container_that_lost_its_monitor_ends_at_once(crashing: Daemon) -> None:
    """With version 1 of cgroups who is frozen does not die of SIGKILL."""
    daemon = crashing
    one = daemon.create("sleep", "600")
    daemon.begin(one)
    monitor = monitor_of(daemon, one)
    assert daemon.request("POST", f"/containers/{one}/pause").status == 204
    said = len(daemon.log)
    os.kill(monitor, signal.SIGKILL)
    assert daemon.wait(one) == 255
    assert "does not end after SIGKILL" not in daemon.log[said:]  # which is said of one that stays frozen
    daemon.remove(one)


def test_monitors_that_are_stopped_hold_up_the_next_daemon_no_longer_than_one(crashing: Daemon) -> None:
    """They are waited for side by side."""
    daemon = crashing
    script = "trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    made = [daemon.create("sh", "-c", script) for _ in range(10)]
    for one in made:
        daemon.begin(one)
        until(lambda one=one: b"ready" in daemon.logs(one))
    monitors = [monitor_of(daemon, one) for one in made]
    for monitor in monitors:
        os.kill(monitor, signal.SIGSTOP)
    try:
        daemon.kill9()
        daemon.start()  # it has 20 seconds; one at a time would take 30 for the greetings alone
    finally:
        for monitor in monitors:
            os.kill(monitor, signal.SIGCONT)
    for one in made:
        assert daemon.request("POST", f"/containers/{one}/stop").status == 204
        assert daemon.inspect(one)["State"]["ExitCode"] == 4
        daemon.remove(one)


def test_an_orderly_stop_leaves_containers_alone(crashing: Daemon) -> None:
    """SIGTERM ends the daemon with 0 and no container."""
    daemon = crashing
    one = daemon.create("sleep", "60")
    daemon.begin(one)
    pid = daemon.inspect(one)["State"]["Pid"]
    assert daemon.stop() == 0
    assert os.path.exists(f"/proc/{pid}")
    daemon.start()
    assert daemon.inspect(one)["State"]["Pid"] == pid
    daemon.remove(one)


def test_a_crash_in_the_middle_of_starts(crashing: Daemon) -> None:
    """Whatever state each container reached, it can be removed, and nothing of it is left."""
    daemon = crashing
    made = [daemon.create("sleep", "60") for _ in range(8)]

    def begin(one: str) -> None:
        try:
            daemon.request("POST", f"/containers/{one}/start")
        except (OSError, EOFError, AssertionError):
            pass  # the daemon is killed while it answers: that is the test

    threads = [threading.Thread(target=begin, args=(one,)) for one in made]
    for thread in threads:
        thread.start()
    time.sleep(0.01)
    crash(daemon)
    for thread in threads:
        thread.join()
    for one in made:
        state = daemon.inspect(one)["State"]
        assert state["Status"] in ("created", "running", "exited")
        if state["Running"]:
            assert os.path.exists(f"/proc/{state['Pid']}")
        assert daemon.request("DELETE", f"/containers/{one}?force=1").status == 204


def test_a_crash_in_the_middle_of_an_import(crashing: Daemon) -> None:
    """No half image, and no temporary file that stays."""
    daemon = crashing
    with daemon.connection() as connection:
        head = "POST /images/create?fromSrc=-&repo=half HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"
        connection.send(head.encode() + bytes(1_000_000))
        daemon.kill9()
    daemon.start()
    assert daemon.request("GET", "/images/half/json").status == 404
    assert sum(path.stat().st_size for path in (daemon.data_root / "tmp").rglob("*") if path.is_file()) == 0


def test_a_spawner_that_was_killed_is_replaced(own_daemon: Daemon) -> None:
    """What makes containers may die too: running ones go on, and the next start makes another."""
    daemon = own_daemon
    running = daemon.create("sh", "-c", "sleep 1; exit 5", name="running")
    daemon.begin(running)
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)
    assert daemon.run("echo", "again").stdout == b"again\n"
    assert daemon.run("echo", "and again").stdout == b"and again\n"
    assert daemon.wait(running) == 5
    daemon.remove(running)


def test_a_spare_whose_init_was_killed_costs_no_start(own_daemon: Daemon) -> None:
    """The next container is made from the beginning instead."""
    daemon = own_daemon
    assert daemon.run("true").status == 0
    spawner = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()[0]

    def descendants(pid: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return [each for child in children for each in (child, *descendants(child))]
        return []

    end = time.monotonic() + 10
    while len(spare := descendants(spawner)) < 3 and time.monotonic() < end:
        time.sleep(0.02)  # a spare tells nobody that it is there
    if len(spare) < 3:
        return  # without the C muxer they are two: test_spares
    with contextlib.suppress(ProcessLookupError):  # it was of the first container, whose monitor ends meanwhile
        os.kill(int(spare[-1]), signal.SIGKILL)
    assert daemon.run("echo", "made anew").stdout == b"made anew\n"


def test_a_crash_in_the_middle_of_opposite_verbs(crashing: Daemon) -> None:
    """Whatever was asked for, the next daemon and the kernel agree about every container."""
    daemon = crashing
    kinds = ({"Name": "no"}, {"Name": "always"}, {"Name": "unless-stopped"})
    made = [
        daemon.create("sleep", "600", HostConfig={"NetworkMode": "none", "RestartPolicy": kinds[number % 3]})
        for number in range(6)
    ]
    verbs = ("start", "stop?t=0", "restart?t=0", "kill", "pause", "unpause", "rename?name=crash-{}")

    def ask(number: int) -> None:
        for step in range(1000):
            one, verb = made[(number + step) % 6], verbs[(number * 3 + step) % len(verbs)].format(step % 3)
            try:
                daemon.request("POST", f"/containers/{one}/{verb}", checked=False)
            except (OSError, EOFError):
                return  # the daemon is killed while it answers: that is the test

    for _ in range(3):
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.4)
        daemon.kill9()
        for thread in threads:
            thread.join(30)
        daemon.start()
        until(lambda: not any(daemon.inspect(one)["State"]["Restarting"] for one in made))
        for one in made:
            state = daemon.inspect(one)["State"]
            assert state["Status"] in ("created", "running", "paused", "exited")
            assert os.path.exists(f"/proc/{state['Pid']}") == (state["Status"] in ("running", "paused"))
    for one in made:
        assert daemon.request("DELETE", f"/containers/{one}?force=1").status == 204


def test_crashes_never_run_a_container_twice_at_once(crashing: Daemon) -> None:
    """One whose policy runs it again and again, over daemons that are killed at any moment of that."""
    daemon = crashing
    script = "mkdir /running || { echo twice; exit 1; }; sleep 0.05; rmdir /running; echo once; exit 1"
    one = daemon.create("sh", "-c", script, HostConfig={"NetworkMode": "none", "RestartPolicy": {"Name": "always"}})
    daemon.begin(one)
    for number in range(8):
        time.sleep(0.05 + number * 0.03)
        crash(daemon)
    until(lambda: daemon.logs(one, "stdout=1").count(b"once") >= 4)
    assert b"twice" not in frames.stdout(daemon.logs(one))
    daemon.remove(one)


def test_what_was_to_remove_itself_is_removed_by_the_next_daemon(crashing: Daemon) -> None:
    """When the last one died between the end and the removal; one that was never started stays."""
    daemon = crashing
    host_config = {"NetworkMode": "none", "AutoRemove": True}
    ended, created = (daemon.create("true", HostConfig=host_config) for _ in range(2))
    daemon.stop()
    with sqlite3.connect(daemon.data_root / "engine.db") as database:
        change = "UPDATE container_states SET status = 'exited', started_ns = 1, finished_ns = 2 WHERE id = ?"
        database.execute(change, (ended,))
    database.close()
    daemon.start()
    until(lambda: daemon.request("GET", f"/containers/{ended}/json").status == 404)
    assert daemon.inspect(created)["State"]["Status"] == "created"
    daemon.remove(created)
