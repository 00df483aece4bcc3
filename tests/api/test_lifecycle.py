"""From created to gone: start, wait, stop, kill, remove, and the exit codes."""

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from tests.harness import frames, rootfs
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

TRAP = "trap 'echo term; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
UNTIL_GO = "until [ -e /go ]; do sleep 0.02; done"
ZERO_TIME = "0001-01-01T00:00:00Z"


def until_output(daemon: Daemon, container: str, text: bytes) -> None:
    """Return when the container has said `text`: followed, not polled."""
    with daemon.connection(timeout=60) as connection:
        connection.open_stream("GET", f"/containers/{container}/logs?stdout=1&stderr=1&follow=1")
        said = b""
        for chunk in connection.chunks():
            said += chunk
            if text in said:
                return
    raise AssertionError(f"the container ended and said {said!r}")


def test_the_main_job(daemon: Daemon) -> None:
    """create, start, wait, logs."""
    output = daemon.run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert output == (3, b"out\n", b"err\n")


def test_states_from_created_to_exited(daemon: Daemon, container: Callable[..., str]) -> None:
    """Inspect shows them."""
    identifier = container("sh", "-c", f"{UNTIL_GO}; exit 5")
    state = daemon.inspect(identifier)["State"]
    assert (state["Status"], state["Pid"], state["StartedAt"]) == ("created", 0, ZERO_TIME)
    daemon.begin(identifier)
    state = daemon.inspect(identifier)["State"]
    assert (state["Status"], state["Running"], state["ExitCode"]) == ("running", True, 0)
    assert state["Pid"] > 1 and state["StartedAt"] > "2020" and state["FinishedAt"] == ZERO_TIME
    daemon.put_file(identifier, "go")
    assert daemon.wait(identifier) == 5
    state = daemon.inspect(identifier)["State"]
    assert (state["Status"], state["Running"], state["Pid"], state["ExitCode"]) == ("exited", False, 0, 5)
    assert state["FinishedAt"] > state["StartedAt"]


def test_starting_twice_is_not_modified(daemon: Daemon, container: Callable[..., str]) -> None:
    """304 while it runs; after its end it runs again and the log grows."""
    identifier = container("sh", "-c", f"echo once; {UNTIL_GO}")
    daemon.begin(identifier)
    assert daemon.request("POST", f"/containers/{identifier}/start").status == 304
    daemon.put_file(identifier, "go")
    daemon.wait(identifier)
    daemon.begin(identifier)
    daemon.wait(identifier)
    assert frames.stdout(daemon.logs(identifier)) == b"once\nonce\n"


@pytest.mark.parametrize("status", [0, 1, 42, 125, 126, 127, 255])
def test_an_exit_status_is_passed_on(daemon: Daemon, status: int) -> None:
    """The client gets it unchanged."""
    assert daemon.run("sh", "-c", f"exit {status}").status == status


@pytest.mark.parametrize(("name", "status"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
def test_a_signal_is_128_and_its_number(daemon: Daemon, name: str, status: int) -> None:
    """For a process that dies of it; a child here, for process 1 ignores what it has no handler for."""
    assert daemon.run("sh", "-c", f"sh -c 'kill -{name} $$'; exit $?").status == status


def test_a_command_that_is_not_there_is_127(daemon: Daemon, container: Callable[..., str]) -> None:
    """The start fails in docker's words, the container stays created with the code and the text."""
    identifier = container("nosuchcmd")
    answer = daemon.request("POST", f"/containers/{identifier}/start")
    assert answer.status == 400
    assert answer.message == (
        "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create"
        " failed: unable to start container process: error during container init:"
        ' exec: "nosuchcmd": executable file not found in $PATH'
    )
    state = daemon.inspect(identifier)["State"]
    assert (state["Status"], state["ExitCode"]) == ("created", 127)
    assert state["Error"] == answer.message


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("/nosuch/path", 127, 'exec: "/nosuch/path": stat /nosuch/path: no such file or directory'),
        ("/etc/passwd", 126, 'exec: "/etc/passwd": permission denied'),
        ("/etc", 126, 'exec: "/etc": is a directory: permission denied'),
    ],
)
def test_a_command_that_cannot_run_is_126_or_127(
    daemon: Daemon, container: Callable[..., str], command: str, status: int, text: str
) -> None:
    """The transcript, calls 101 and 105."""
    identifier = container(command)
    answer = daemon.request("POST", f"/containers/{identifier}/start")
    assert answer.status == 400
    assert answer.message.endswith(text)
    assert daemon.inspect(identifier)["State"]["ExitCode"] == status


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"#!/bin/sh\r\necho\r\n", "no such file or directory"),
        (b"#!/no/such/interpreter\n", "no such file or directory"),
        (b"echo no first line\n", "exec format error"),
    ],
    ids=["crlf", "interpreter", "text"],
)
def test_a_program_that_is_there_and_cannot_be_executed_is_a_run(
    daemon: Daemon, container: Callable[..., str], content: bytes, reason: str
) -> None:
    """As with docker: the start succeeds, the log says why, and the restart policy goes by the code."""
    policy = {"Name": "on-failure", "MaximumRetryCount": 1}
    identifier = container("/x", HostConfig={"NetworkMode": "none", "RestartPolicy": policy})
    data = rootfs.archive([("x", 0o755, content)])
    answer = daemon.request(
        "PUT", f"/containers/{identifier}/archive?path=/", data, {"Content-Type": "application/x-tar"}
    )
    assert answer.status == 200
    daemon.begin(identifier)
    until(lambda: daemon.inspect(identifier)["State"]["Status"] == "exited")
    found = daemon.inspect(identifier)
    assert (found["State"]["ExitCode"], found["State"]["Error"], found["RestartCount"]) == (255, "", 1)
    assert frames.stderr(daemon.logs(identifier)) == 2 * f"exec /x: {reason}\n".encode()


def test_a_failed_start_leaves_nothing_running(daemon: Daemon, container: Callable[..., str]) -> None:
    """And the container can be removed without force."""
    identifier = container("true", User="nosuchuser")
    answer = daemon.request("POST", f"/containers/{identifier}/start")
    assert answer.message == "unable to find user nosuchuser: no matching entries in passwd file"
    assert daemon.inspect(identifier)["State"]["Running"] is False
    assert daemon.request("DELETE", f"/containers/{identifier}").status == 204


def test_waiting_for_the_next_exit(daemon: Daemon, container: Callable[..., str]) -> None:
    """The waiter comes before the start, the head of its answer before the end."""
    identifier = container("sh", "-c", "exit 9")
    with daemon.connection() as connection:
        status, headers = connection.open_stream("POST", f"/containers/{identifier}/wait?condition=next-exit")
        assert status == 200
        daemon.begin(identifier)
        assert b'"StatusCode":9' in connection.read_body("POST", status, headers).replace(b" ", b"")


def test_waiting_for_what_is_not_running_returns_at_once(daemon: Daemon, container: Callable[..., str]) -> None:
    """not-running is the default: a created container is not running."""
    identifier = container("true")
    assert daemon.wait(identifier) == 0
    assert daemon.wait(identifier, "not-running") == 0


def test_waiting_for_removal(daemon: Daemon, container: Callable[..., str]) -> None:
    """Comes with the exit status, after the container is gone."""
    identifier = container("sh", "-c", "exit 6")
    with daemon.connection() as connection:
        status, headers = connection.open_stream("POST", f"/containers/{identifier}/wait?condition=removed")
        daemon.begin(identifier)
        daemon.wait(identifier)
        daemon.remove(identifier)
        assert b'"StatusCode":6' in connection.read_body("POST", status, headers).replace(b" ", b"")
    assert daemon.request("GET", f"/containers/{identifier}/json").status == 404


def test_a_waiter_that_goes_away_is_forgotten(daemon: Daemon, container: Callable[..., str]) -> None:
    """It keeps neither a thread nor a descriptor of the daemon."""
    identifier = container("sleep", "60")
    daemon.begin(identifier)
    before = threads(daemon)
    for _ in range(20):
        with daemon.connection() as connection:
            connection.open_stream("POST", f"/containers/{identifier}/wait")
    until(lambda: threads(daemon) <= before + 2)


def threads(daemon: Daemon) -> int:
    """How many threads the daemon has."""
    with open(f"/proc/{daemon.pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def test_a_bad_condition_is_refused(daemon: Daemon, container: Callable[..., str]) -> None:
    """The transcript, call 136; before the container is looked for."""
    for name in (container("true"), "nope"):
        answer = daemon.request("POST", f"/containers/{name}/wait?condition=bogus")
        assert (answer.status, answer.message) == (400, 'invalid condition: "bogus"')


def test_stop_lets_the_process_end_in_order(daemon: Daemon, container: Callable[..., str]) -> None:
    """SIGTERM first; the process chooses its status."""
    identifier = container("sh", "-c", TRAP)
    daemon.begin(identifier)
    until_output(daemon, identifier, b"ready")
    answer = daemon.request("POST", f"/containers/{identifier}/stop?signal=BOGUS", checked=False)
    assert (answer.status, answer.message) == (400, f"cannot stop container: {identifier}: invalid signal: BOGUS")
    assert daemon.request("POST", f"/containers/{identifier}/stop?t=10").status == 204
    assert daemon.inspect(identifier)["State"]["ExitCode"] == 7
    assert frames.stdout(daemon.logs(identifier)) == b"ready\nterm\n"
    assert daemon.request("POST", f"/containers/{identifier}/stop").status == 304


@pytest.mark.alone
def test_stop_kills_what_does_not_listen(daemon: Daemon, container: Callable[..., str]) -> None:
    """After the time given; process 1 without a handler does not hear SIGTERM."""
    identifier = container("sleep", "60")
    daemon.begin(identifier)
    begun = time.monotonic()
    assert daemon.request("POST", f"/containers/{identifier}/stop?t=1").status == 204
    assert 0.9 < time.monotonic() - begun < 5
    assert daemon.inspect(identifier)["State"]["ExitCode"] == 137


def test_the_stop_signal_and_timeout_are_the_containers_own(daemon: Daemon, container: Callable[..., str]) -> None:
    """StopSignal and StopTimeout of the configuration, ?signal= of the call."""
    script = "trap 'exit 11' INT; trap 'exit 12' USR1; echo ready; while :; do sleep 0.05; done"
    for query, status in (("", 11), ("?signal=USR1", 12), ("?signal=SIGUSR1&t=5", 12)):
        identifier = container("sh", "-c", script, StopSignal="SIGINT", StopTimeout=20)
        daemon.begin(identifier)
        until_output(daemon, identifier, b"ready")
        daemon.request("POST", f"/containers/{identifier}/stop{query}")
        assert daemon.inspect(identifier)["State"]["ExitCode"] == status


@pytest.mark.parametrize(("own", "asked"), [("99", ""), ("", "65"), ("", "-5")])
def test_a_signal_that_does_not_exist_is_sent_to_nobody(
    daemon: Daemon, container: Callable[..., str], own: str, asked: str
) -> None:
    """dockerd takes the number; a stop then kills the container after two seconds, and a restart begins it anew."""
    identifier = container("sleep", "60", StopSignal=own, StopTimeout=30)
    daemon.begin(identifier)
    query = f"?signal={asked}" if asked else ""
    begun = time.monotonic()
    assert daemon.request("POST", f"/containers/{identifier}/restart{query}").status == 204
    assert 1.9 < time.monotonic() - begun < 20
    assert daemon.inspect(identifier)["State"]["Running"]
    assert daemon.request("POST", f"/containers/{identifier}/stop{query}").status == 204
    assert daemon.inspect(identifier)["State"]["ExitCode"] == 137


def test_kill_sends_a_signal(daemon: Daemon, container: Callable[..., str]) -> None:
    """SIGKILL when none is named; by name, with or without SIG, by number."""
    script = "trap 'echo usr1' USR1; trap 'echo hup' HUP; echo ready; while :; do sleep 0.05; done"
    identifier = container("sh", "-c", script)
    daemon.begin(identifier)
    until_output(daemon, identifier, b"ready")
    for name, said in (("USR1", b"usr1"), ("SIGHUP", b"hup"), ("10", b"usr1\nhup\nusr1")):
        assert daemon.request("POST", f"/containers/{identifier}/kill?signal={name}").status == 204
        if name != "10":
            until_output(daemon, identifier, said)
    assert daemon.inspect(identifier)["State"]["Running"] is True
    assert daemon.request("POST", f"/containers/{identifier}/kill").status == 204
    assert daemon.wait(identifier) == 137


def test_kill_refuses_what_makes_no_sense(daemon: Daemon, container: Callable[..., str]) -> None:
    """The transcript, calls 124 and 169."""
    identifier = container("sleep", "60")
    answer = daemon.request("POST", f"/containers/{identifier}/kill")
    assert answer.status == 409
    assert answer.message == f"cannot kill container: {identifier}: container {identifier} is not running"
    daemon.begin(identifier)
    for asked, reason in (
        ("BOGUS", "invalid signal: BOGUS"),
        ("99", "the linux daemon does not support signal 99"),
        ("33", "the linux daemon does not support signal 33"),
    ):
        answer = daemon.request("POST", f"/containers/{identifier}/kill?signal={asked}")
        assert (answer.status, answer.message) == (400, f"cannot kill container: {identifier}: {reason}")


def test_what_runs_is_not_removed_without_force(daemon: Daemon, container: Callable[..., str]) -> None:
    """The transcript, call 168; with force it is killed first."""
    identifier = container("sleep", "60")
    daemon.begin(identifier)
    process = os.pidfd_open(daemon.inspect(identifier)["State"]["Pid"])  # its number may be another's by then
    answer = daemon.request("DELETE", f"/containers/{identifier}")
    assert answer.status == 409
    assert answer.message == (
        f'cannot remove container "{identifier}": container is running: '
        "stop the container before removing or force remove"
    )
    assert daemon.request("DELETE", f"/containers/{identifier}?force=1").status == 204
    assert daemon.request("GET", f"/containers/{identifier}/json").status == 404
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(process, 0)
    os.close(process)


def test_a_removed_container_leaves_no_files(daemon: Daemon) -> None:
    """Neither below the data root nor below the exec root; they may go a moment after the answer."""
    identifier = daemon.create("sh", "-c", "echo hi > /file; mkdir -m 0 /locked")
    daemon.begin(identifier)
    daemon.wait(identifier)
    daemon.remove(identifier)

    def left() -> list[str]:
        trees = (os.walk(root) for root in (daemon.data_root, daemon.exec_root))  # walk passes over what goes meanwhile
        names = (name for tree in trees for _, directories, files in tree for name in directories + files)
        return [name for name in names if identifier[:12] in name]

    until(lambda: not left())


def test_autoremove_takes_the_container_away_at_its_end(daemon: Daemon) -> None:
    """A waiter for its removal learns the exit status."""
    identifier = daemon.create("sh", "-c", "exit 4", HostConfig={"AutoRemove": True, "NetworkMode": "none"})
    with daemon.connection() as connection:
        status, headers = connection.open_stream("POST", f"/containers/{identifier}/wait?condition=removed")
        daemon.begin(identifier)
        assert b'"StatusCode":4' in connection.read_body("POST", status, headers).replace(b" ", b"")
    assert daemon.request("GET", f"/containers/{identifier}/json").status == 404


@pytest.mark.alone
def test_orphans_end_with_process_one(daemon: Daemon, container: Callable[..., str]) -> None:
    """The pid namespace takes them along, and the open pipe that they hold delays nothing."""
    identifier = container("sh", "-c", "sleep 1000 & echo begun")
    daemon.begin(identifier)
    begun = time.monotonic()
    assert daemon.wait(identifier) == 0
    assert time.monotonic() - begun < 5
    assert frames.stdout(daemon.logs(identifier)) == b"begun\n"


def test_many_containers_at_once(daemon: Daemon) -> None:
    """Sixteen threads, each its own container, each its own status and output."""
    outputs: dict[int, object] = {}

    def one(number: int) -> None:
        outputs[number] = daemon.run("sh", "-c", f"echo {number}; exit {number}")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {number: (number, b"%d\n" % number, b"") for number in range(16)}


@pytest.mark.parametrize("verb", ["start", "wait", "stop", "kill", "attach"])
def test_a_container_that_is_not_there_is_404(daemon: Daemon, verb: str) -> None:
    """In docker's words, for every verb."""
    answer = daemon.request("POST", f"/containers/nope/{verb}")
    assert answer.status == 404
    assert b"No such container: nope" in answer.body
