"""POST /containers/{id}/exec, /exec/{id}/start, GET /exec/{id}/json: what runs, what is told, what is refused."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import execs, frames
from tests.harness.daemon import Daemon
from tests.harness.execs import ATTACHED, INTERACTIVE, Said
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

ID = re.compile(r"[0-9a-f]{64}")
GROUPS = "root:x:0:root\nwheel:x:10:root,foo\nfoo:x:1001:\n"


@pytest.fixture
def box(daemon: Daemon, container: Callable[..., str]) -> str:
    """A container that runs."""
    one = container("sleep", "600", Env=["COLOUR=red", "EMPTY="], WorkingDir="/tmp")
    daemon.begin(one)
    return one


def refusal(daemon: Daemon, method: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and the text of an error answer."""
    answer = daemon.request(method, path, body)
    return answer.status, answer.message


def test_an_exec_says_what_it_says_and_how_it_ended(daemon: Daemon, box: str) -> None:
    """Both streams in frames; the exit code is there when the client has seen the end."""
    assert execs.run(daemon, box, "sh", "-c", "echo out; echo err >&2; exit 3") == Said(3, "out\n", "err\n")


def test_inspect_before_while_and_after(daemon: Daemon, box: str) -> None:
    """Every field, as dockerd shows it."""
    one = execs.create(daemon, box, "sh", "-c", "read x; exit 4", **INTERACTIVE)
    assert ID.fullmatch(one)
    found = execs.inspect(daemon, one)
    assert found == {
        "ID": one,
        "Running": False,
        "ExitCode": None,
        "ProcessConfig": {
            "tty": False,
            "entrypoint": "sh",
            "arguments": ["-c", "read x; exit 4"],
            "privileged": False,
        },
        "OpenStdin": True,
        "OpenStderr": True,
        "OpenStdout": True,
        "CanRemove": False,
        "ContainerID": box,
        "DetachKeys": "",
        "Pid": 0,
    }
    assert daemon.inspect(box)["ExecIDs"] == [one]
    with execs.attached(daemon, one) as connection:
        running = execs.inspect(daemon, one)
        assert (running["Running"], running["ExitCode"]) == (True, None)
        assert running["Pid"] > 1
        connection.send(b"\n")
        assert connection.read_to_end() == b""
    assert execs.inspect(daemon, one) == {**found, "ExitCode": 4, "Pid": running["Pid"]}
    assert daemon.inspect(box)["ExecIDs"] is None


def test_the_answer_to_a_start(daemon: Daemon, box: str) -> None:
    """101 and the type of the stream for who upgrades; 200 and the raw type for who does not; 200 for a detached."""
    both, alone = {"Connection": "Upgrade", "Upgrade": "tcp"}, {"Upgrade": "tcp"}
    for tty, upgrade, kind in (
        (False, both, "application/vnd.docker.multiplexed-stream"),
        (False, alone, "application/vnd.docker.multiplexed-stream"),
        (True, both, "application/vnd.docker.raw-stream"),
        (False, {}, "application/vnd.docker.raw-stream"),
        (False, {"Connection": "Upgrade"}, "application/vnd.docker.raw-stream"),
    ):
        one = execs.create(daemon, box, "true", Tty=tty)
        with daemon.connection() as connection:
            status, told = connection.open_stream("POST", f"/exec/{one}/start", {"Tty": tty}, upgrade)
            assert (status, told["content-type"]) == (101 if "Upgrade" in upgrade else 200, kind)
            assert connection.read_to_end() == b""
    one = execs.create(daemon, box, "true")
    answer = daemon.request("POST", f"/exec/{one}/start", {"Detach": True})
    assert (answer.status, answer.body) == (200, b"")


def test_a_detached_exec_runs_on_its_own(daemon: Daemon, box: str) -> None:
    """The answer comes when it runs, its end is known later."""
    one = execs.create(daemon, box, "sh", "-c", "until [ -e /tmp/go ]; do sleep 0.02; done; touch /tmp/been; exit 9")
    assert daemon.request("POST", f"/exec/{one}/start", {"Detach": True}).status == 200
    assert execs.inspect(daemon, one)["Running"] is True
    execs.shell(daemon, box, "touch /tmp/go")
    until(lambda: not execs.inspect(daemon, one)["Running"])
    assert execs.inspect(daemon, one)["ExitCode"] == 9
    assert execs.shell(daemon, box, "ls /tmp/been") == "/tmp/been"


def test_input_goes_in_and_its_end_ends_it(daemon: Daemon, box: str) -> None:
    """Half-close is the command's end of file; nothing of a large input is lost."""
    assert execs.run(daemon, box, "cat", stdin=b"one\ntwo\n") == Said(0, "one\ntwo\n", "")
    assert execs.run(daemon, box, "wc", "-c", stdin=b"x" * 1_000_000).out.strip() == "1000000"


def test_without_stdin_there_is_an_end_of_file_at_once(daemon: Daemon, box: str) -> None:
    """And it is the container's own /dev/null."""
    assert execs.run(daemon, box, "sh", "-c", "cat; ls -l /proc/self/fd/0 | grep -o /dev/null") == Said(
        0, "/dev/null\n", ""
    )


def test_only_the_streams_asked_for(daemon: Daemon, box: str) -> None:
    """stdout alone; stderr alone; none: the answer ends at once, the command goes on."""
    script = ("sh", "-c", "echo out; echo err >&2")
    assert execs.run(daemon, box, *script, AttachStderr=False) == Said(0, "out\n", "")
    assert execs.run(daemon, box, *script, AttachStdout=False) == Said(0, "", "err\n")
    one = execs.create(daemon, box, "sleep", "600", AttachStdout=False, AttachStderr=False)
    with execs.attached(daemon, one) as connection:
        assert connection.read_to_end() == b""
    assert execs.inspect(daemon, one)["Running"] is True


def test_the_environment_is_the_containers_and_then_its_own(daemon: Daemon, box: str) -> None:
    """HOME of the user, TERM with a terminal only, a name alone takes a variable away."""
    lines = execs.shell(daemon, box, "env", Env=["SHAPE=round", "COLOUR=blue", "EMPTY"]).splitlines()
    found = dict(line.partition("=")[::2] for line in lines)
    assert found["COLOUR"] == "blue" and found["SHAPE"] == "round" and "EMPTY" not in found and "TERM" not in found
    assert execs.shell(daemon, box, "echo $HOME", Env=["HOME="]) == "/root"
    assert execs.shell(daemon, box, "echo $HOME", Env=["HOME=/x"]) == "/x"
    assert found["HOSTNAME"] == box[:12] and found["PATH"].startswith("/usr/local/sbin") and found["HOME"] == "/root"
    assert "TERM=xterm\r\n" in execs.run(daemon, box, "env", Tty=True).out


def test_the_working_directory(daemon: Daemon, box: str) -> None:
    """The container's, or its own; one that is missing is said as runc says it."""
    assert execs.shell(daemon, box, "pwd") == "/tmp"
    assert execs.shell(daemon, box, "pwd", WorkingDir="/etc") == "/etc"
    said = execs.run(daemon, box, "pwd", WorkingDir="/nosuch")
    assert said == Said(
        127,
        "OCI runtime exec failed: exec failed: unable to start container process: "
        'chdir to cwd ("/nosuch") set in config.json failed: no such file or directory\r\n',
        "",
    )


def test_users_and_groups(daemon: Daemon, container: Callable[..., str]) -> None:
    """The container's user by default; by name or number; supplementary groups as the files say, and GroupAdd's."""
    one = container("sleep", "600", User="1000:1001", HostConfig={"NetworkMode": "none", "GroupAdd": ["2000"]})
    daemon.begin(one)
    assert execs.shell(daemon, one, "id -u; id -G") == "1000\n1001 2000"
    made = execs.shell(
        daemon,
        one,
        f"printf 'root:x:0:0:root:/root:/bin/sh\\nfoo:x:1000:1001:Foo:/home/foo:/bin/sh\\n' > /etc/passwd; "
        f"printf '{GROUPS}' > /etc/group; id -u",
        User="0",
    )
    assert made == "0"
    assert execs.shell(daemon, one, "id -u; id -G; echo $HOME", User="foo") == "1000\n1001 10 2000\n/home/foo"
    assert execs.shell(daemon, one, "id -u; id -G", User="foo:wheel") == "1000\n10 2000"
    assert execs.shell(daemon, one, "id -u; id -g", User="4321") == "4321\n0"
    assert refusal(daemon, "POST", f"/containers/{one}/exec", {"Cmd": ["id"], "User": "nobody-here"}) == (
        400,
        "unable to find user nobody-here: no matching entries in passwd file",
    )


def test_privileged_gives_all_capabilities_and_nothing_else_does(daemon: Daemon, box: str) -> None:
    """Docker's fourteen, as process 1 has; all that the host gives with Privileged."""
    plain = execs.shell(daemon, box, "grep Cap /proc/self/status; echo; grep Cap /proc/1/status").split("\n\n")
    assert plain[0] == plain[1]
    mine = execs.shell(daemon, box, "grep CapEff /proc/self/status", Privileged=True)
    assert int(mine.split()[1], 16) > 0xA80425FB


def test_it_has_the_containers_namespaces_cgroups_and_limits(daemon: Daemon, container: Callable[..., str]) -> None:
    """Each the same as process 1's; seccomp, resource limits, OOM score too."""
    ulimit = [{"Name": "nofile", "Soft": 123, "Hard": 456}]
    one = container("sleep", "600", HostConfig={"NetworkMode": "none", "Ulimits": ulimit, "Memory": 64 << 20})
    daemon.begin(one)
    look = (
        "for n in mnt pid net ipc uts cgroup user; do readlink /proc/%s/ns/$n; done; cat /proc/%s/cgroup "
        "/proc/%s/oom_score_adj; grep -E 'Seccomp|NoNewPrivs|^Umask' /proc/%s/status; grep open /proc/%s/limits"
    )
    inside = execs.shell(daemon, one, look.replace("%s", "self"))
    assert inside == execs.shell(daemon, one, look.replace("%s", "1"))
    assert "456" in inside and "Seccomp:\t2" in inside


def test_an_exit_code_is_heard_of_a_monitor_that_had_not_read_all(daemon: Daemon, box: str) -> None:
    """Resizes that come beside the end are left unread, and must not stand before it."""
    one = execs.create(daemon, box, "sleep", "600", Tty=True)
    assert daemon.request("POST", f"/exec/{one}/start", {"Detach": True, "Tty": True}).status == 200
    process = execs.inspect(daemon, one)["Pid"]
    until(lambda: state_of(parent_of(process)) == "S")  # it has done what a start is, and waits
    monitor = parent_of(process)
    os.kill(monitor, signal.SIGSTOP)
    try:
        for _ in range(5):
            assert daemon.request("POST", f"/exec/{one}/resize?h=10&w=10").status == 200
        os.kill(process, signal.SIGTERM)
    finally:
        os.kill(monitor, signal.SIGCONT)
    until(lambda: not execs.inspect(daemon, one)["Running"])
    assert execs.inspect(daemon, one)["ExitCode"] == 128 + signal.SIGTERM


def state_of(pid: int) -> str:
    """A process's state, as proc_pid_stat(5) has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def parent_of(pid: int) -> int:
    """The pid of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_command_that_cannot_be_run(daemon: Daemon, box: str) -> None:
    """Docker's words in the stream, its exit codes in inspect; detached a 400."""
    failed = "OCI runtime exec failed: exec failed: unable to start container process: "
    for argv, code, text in (
        ("nosuch", 127, 'exec: "nosuch": executable file not found in $PATH'),
        ("/no/such", 127, 'exec: "/no/such": stat /no/such: no such file or directory'),
        ("/etc", 126, 'exec: "/etc": is a directory: permission denied'),
        ("/etc/passwd", 126, 'exec: "/etc/passwd": permission denied'),
    ):
        assert execs.run(daemon, box, argv) == Said(code, f"{failed}{text}\r\n", "")
        one = execs.create(daemon, box, argv)
        assert refusal(daemon, "POST", f"/exec/{one}/start", {"Detach": True}) == (400, failed + text)
        found = execs.inspect(daemon, one)
        assert (found["ExitCode"], found["Running"], found["Pid"]) == (code, False, 0)
    assert execs.run(daemon, box, "nosuch", Tty=True).out.endswith("executable file not found in $PATH\r\n")
    assert daemon.inspect(box)["ExecIDs"] is None


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("privileged", [False, True], ids=["shared", "forked"])
def test_a_program_that_is_there_and_cannot_be_executed(daemon: Daemon, box: str, tty: bool, privileged: bool) -> None:
    """It has run, as with docker: it says why not, and its code is runc's. Privileged ones are forked."""
    execs.run(daemon, box, "sh", "-c", "printf '#!/no/such\r\n' > /tmp/script; echo text > /tmp/text; chmod +x /tmp/*")
    for name, reason in (("script", "no such file or directory"), ("text", "exec format error")):
        said = execs.run(daemon, box, f"/tmp/{name}", Tty=tty, Privileged=privileged)
        assert (said.code, said.out.rstrip() + said.err.rstrip()) == (255, f"exec /tmp/{name}: {reason}")


def test_what_is_refused(daemon: Daemon, container: Callable[..., str], box: str) -> None:
    """Statuses and texts of dockerd."""
    created = container("true")
    body = {"Cmd": ["true"]}
    assert refusal(daemon, "POST", f"/containers/{created}/exec", body) == (
        409,
        f"container {created} is not running",
    )
    assert refusal(daemon, "POST", "/containers/nosuch/exec", body) == (404, "No such container: nosuch")
    assert refusal(daemon, "POST", f"/containers/{box}/exec", {"Cmd": []}) == (400, "No exec command specified")
    assert refusal(daemon, "POST", f"/containers/{box}/exec") == (400, "No exec command specified")
    for method, path in (("GET", "json"), ("POST", "start"), ("POST", "resize?h=1&w=1")):
        assert refusal(daemon, method, f"/exec/nope/{path}") == (404, "No such exec instance: nope")
    assert refusal(daemon, "POST", f"/containers/{box}/exec", {"Cmd": ["a\0b"]})[0] == 400


def test_an_exec_runs_once(daemon: Daemon, box: str) -> None:
    """The second start is told so: in the stream, or as a conflict."""
    one = execs.create(daemon, box, "sleep", "0.3")
    assert daemon.request("POST", f"/exec/{one}/start", {"Detach": True}).status == 200
    assert refusal(daemon, "POST", f"/exec/{one}/start", {"Detach": True})[0] == 409
    done = execs.create(daemon, box, "true")
    with execs.attached(daemon, done) as connection:
        connection.read_to_end()
    with execs.attached(daemon, done, upgrade=False) as connection:
        assert frames.stdout(connection.read_to_end()) == f"exec command {done} has already run\r\n".encode()
    assert refusal(daemon, "POST", f"/exec/{done}/start", {"Detach": True}) == (
        409,
        f"exec command {done} has already run",
    )


def test_an_exec_of_a_removed_container_is_gone(daemon: Daemon, container: Callable[..., str]) -> None:
    """404 for all of it."""
    one = container("sleep", "600")
    daemon.begin(one)
    made = execs.create(daemon, one, "true")
    daemon.remove(one)
    assert refusal(daemon, "GET", f"/exec/{made}/json") == (404, f"No such exec instance: {made}")


def test_an_exec_that_was_not_started_ends_with_its_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """A later run of the container is not the one that it was made for; what has run by then can be asked for."""
    one = container("sleep", "600")
    daemon.begin(one)
    done, left = execs.create(daemon, one, "true"), execs.create(daemon, one, "true")
    with execs.attached(daemon, done) as connection:
        connection.read_to_end()
    until(lambda: daemon.inspect(one)["ExecIDs"] == [left])  # its output ends before its end is told
    for again in (False, True):
        if again:
            daemon.begin(one)
        else:
            assert daemon.request("POST", f"/containers/{one}/kill").status == 204
            daemon.wait(one)
        assert daemon.inspect(one)["ExecIDs"] is None
        for method, path in (("GET", "json"), ("POST", "start"), ("POST", "resize?h=1&w=1")):
            assert refusal(daemon, method, f"/exec/{left}/{path}") == (404, f"No such exec instance: {left}")
        assert execs.inspect(daemon, done)["ExitCode"] == 0


def test_a_terminal(daemon: Daemon, box: str) -> None:
    """No frames, an echo, a size from the start and by resize, control characters, and the keys that detach."""
    # The new size and the next bytes take different ways to the terminal.
    script = "stty size; read x; until stty size | grep -x '44 99'; do sleep 0.02; done; read y"
    one = execs.create(daemon, box, "sh", "-c", script, Tty=True, DetachKeys="ctrl-a,x", **INTERACTIVE)
    with execs.attached(daemon, one, tty=True, ConsoleSize=[33, 77]) as connection:
        assert connection.read_until(b"\n") == b"33 77\r\n"
        assert daemon.request("POST", f"/exec/{one}/resize?h=44&w=99").status == 200
        connection.send(b"\n")
        assert connection.read_until(b"99\r\n") == b"\r\n44 99\r\n"
        connection.send(b"\x01x")
        connection.read_to_end()
    assert execs.inspect(daemon, one)["Running"] is True
    assert execs.inspect(daemon, one)["DetachKeys"] == "AXg="


def test_a_terminal_is_as_large_as_one_can_be(daemon: Daemon, container: Callable[..., str], box: str) -> None:
    """Where a client asks for more, in a create. (busybox calls such a number 24.)"""
    huge = [2**64 - 1, 77]
    one = container("stty", "size", Tty=True, HostConfig={"NetworkMode": "none", "ConsoleSize": huge})
    daemon.begin(one)
    assert daemon.wait(one) == 0
    assert daemon.logs(one) == b"24 77\r\n"
    assert execs.run(daemon, box, "stty", "size", Tty=True, ConsoleSize=huge).out == "24 77\r\n"


def test_control_c_in_a_terminal(daemon: Daemon, box: str) -> None:
    """It is the terminal of the command's own session."""
    one = execs.create(daemon, box, "cat", Tty=True, **INTERACTIVE)
    with execs.attached(daemon, one, tty=True) as connection:
        connection.send(b"abc\n")
        assert connection.read_until(b"abc\r\nabc\r\n")
        connection.send(b"\x03")
        connection.read_to_end()
    assert execs.inspect(daemon, one)["ExitCode"] == 130


def test_resize_of_what_has_ended(daemon: Daemon, box: str) -> None:
    """Docker's text."""
    one = execs.create(daemon, box, "true")
    with execs.attached(daemon, one) as connection:
        connection.read_to_end()
    assert refusal(daemon, "POST", f"/exec/{one}/resize?h=1&w=1") == (
        404,
        f"NotFound: process does not exist {one}: not found",
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("h=x&w=1", 'invalid resize height "x": invalid syntax'),
        ("h=1&w=-1", 'invalid resize width "-1": value out of range'),
        ("h=1", 'invalid resize width "": invalid syntax'),
        ("h=&w=1", 'invalid resize height "": invalid syntax'),
    ],
)
def test_a_size_that_is_none_is_refused(daemon: Daemon, box: str, query: str, text: str) -> None:
    one = execs.create(daemon, box, "sleep", "9", Tty=True)
    for exec_id in (one, "nope"):
        assert refusal(daemon, "POST", f"/exec/{exec_id}/resize?{query}") == (400, text)


def test_a_client_that_stops_reading_slows_the_command_and_loses_nothing(daemon: Daemon, box: str) -> None:
    """Back-pressure as for attach; another exec is not held up by it."""
    one = execs.create(daemon, box, "seq", "1", "500000")
    with execs.attached(daemon, one) as connection:
        time.sleep(0.5)
        assert execs.inspect(daemon, one)["Running"] is True
        assert execs.shell(daemon, box, "echo meanwhile") == "meanwhile"
        wanted = b"".join(b"%d\n" % number for number in range(1, 500_001))
        assert frames.stdout(connection.read_to_end()) == wanted


def test_a_client_that_vanishes_leaves_the_command_running(daemon: Daemon, box: str) -> None:
    """It runs to its end, held up by nobody."""
    one = execs.create(daemon, box, "sh", "-c", "seq 1 300000; exit 7")
    with execs.attached(daemon, one) as connection:
        connection.read(1000)
    until(lambda: execs.inspect(daemon, one)["ExitCode"] is not None)
    assert execs.inspect(daemon, one)["ExitCode"] == 7


def test_a_hundred_at_once(daemon: Daemon, box: str) -> None:
    """Each says its own, and its exit code is right at once."""
    wrong: list[object] = []

    def one(number: int) -> None:
        try:
            said = execs.run(daemon, box, "sh", "-c", f"echo {number}; exit {number}")
        except Exception as error:
            wrong.append(error)
            return
        if said != Said(number, f"{number}\n", ""):
            wrong.append(said)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_the_containers_end_ends_its_execs(daemon: Daemon, container: Callable[..., str]) -> None:
    """They are reported, and the client sees the end of its stream."""
    one = container("sleep", "600")
    daemon.begin(one)
    made = execs.create(daemon, one, "sleep", "600")
    with execs.attached(daemon, made) as connection:
        assert execs.inspect(daemon, made)["Running"] is True
        assert daemon.request("POST", f"/containers/{one}/kill").status == 204
        assert connection.read_to_end() == b""
    assert daemon.wait(one) == 137
    found = execs.inspect(daemon, made)
    assert (found["Running"], found["ExitCode"]) == (False, 137)
    assert daemon.inspect(one)["ExecIDs"] is None


def test_an_exec_at_the_moment_the_container_dies(daemon: Daemon, container: Callable[..., str]) -> None:
    """Whatever comes of it, it is an answer, the container's end is recorded, and it can be removed."""
    for _ in range(5):
        one = container("sleep", "600")
        daemon.begin(one)
        stop = threading.Event()
        strange: list[object] = []

        def ask(one: str = one, stop: threading.Event = stop, strange: list = strange) -> None:
            while not stop.is_set():
                answer = daemon.request("POST", f"/containers/{one}/exec", {"Cmd": ["true"], **ATTACHED})
                if answer.status == 409:
                    return
                started = daemon.request("POST", f"/exec/{answer.json()['Id']}/start", {"Detach": True})
                if started.status not in (200, 404, 409):  # 404: the end has come between the two
                    strange.append(started)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.03)
        assert daemon.request("POST", f"/containers/{one}/kill").status == 204
        assert daemon.wait(one) == 137
        for thread in threads:
            thread.join(20)
        stop.set()
        assert not strange
        daemon.remove(one)


def test_a_restart_of_the_daemon_leaves_the_command_running(own_daemon: Daemon) -> None:
    """The client keeps its stream, and the next daemon knows the exec."""
    one = own_daemon.create("sleep", "600")
    own_daemon.begin(one)
    made = execs.create(own_daemon, one, "sh", "-c", "read x; echo got $x; read y", **INTERACTIVE)
    with execs.attached(own_daemon, made) as connection:
        assert execs.inspect(own_daemon, made)["Running"] is True
        own_daemon.kill9()
        own_daemon.start()
        connection.send(b"this\n")
        assert connection.read(17) == b"\1\0\0\0\0\0\0\x09got this\n"
        assert execs.inspect(own_daemon, made)["Running"] is True
        assert own_daemon.inspect(one)["ExecIDs"] == [made]
        assert execs.run(own_daemon, one, "sh", "-c", "exit 5").code == 5
        connection.send(b"\n")
        assert connection.read_to_end() == b""


def test_the_python_muxer_runs_execs_too(make_daemon: Callable[..., Daemon]) -> None:
    """One process a monitor: streams, stdin, terminal, failures."""
    daemon = make_daemon("--muxer", "python")
    daemon.import_busybox()
    one = daemon.create("sleep", "600")
    daemon.begin(one)
    assert execs.run(daemon, one, "sh", "-c", "cat; echo err >&2; exit 3", stdin=b"in") == Said(3, "in", "err\n")
    assert execs.run(daemon, one, "nosuch").code == 127
    assert execs.run(daemon, one, "tty", Tty=True).out.startswith("/dev/pts/")
