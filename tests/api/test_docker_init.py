"""Init: the process 1 that reaps and forwards, as docker shows it, and the daemon's options about it."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import _muxer
from tests.harness.daemon import Daemon
from tests.harness.listening import until

PROGRAM = Path(_muxer.__file__).parent / "docker-init"

pytestmark = [
    pytest.mark.usefixtures("busybox"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="docker-init is not built: python3 -m _muxer.build"),
]


def host(**fields: object) -> dict:
    """A HostConfig without a network, with an init."""
    return {"NetworkMode": "none", "Init": True, **fields}


def until_says(daemon: Daemon, container: str, word: bytes) -> bytes:
    """The container's log once it has this in it."""
    return until(lambda: word in (said := daemon.logs(container)) and said)


def test_process_1_is_docker_init_and_inspect_shows_the_command(daemon: Daemon, container: Callable[..., str]) -> None:
    """Path and Args stay the user's."""
    one = container("sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline; echo; echo pid $$; sleep 60", HostConfig=host())
    shown = daemon.inspect(one)
    assert (shown["Path"], shown["HostConfig"]["Init"]) == ("sh", True)
    daemon.begin(one)
    said = until_says(daemon, one, b"pid ")
    assert b"/sbin/docker-init -- sh -c " in said and b"pid 1\n" not in said
    titles = daemon.request("GET", f"/containers/{one}/top").json()
    assert [row for row in titles["Processes"] if row[-1].startswith("/sbin/docker-init -- sh -c")]


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -6 $$", 134)]
)
def test_the_exit_code_is_the_commands(daemon: Daemon, script: str, code: int) -> None:
    """Or 128 and the number of the signal."""
    assert daemon.run("sh", "-c", script, HostConfig=host()).status == code


@pytest.mark.parametrize(("command", "code"), [("no-such", 127), ("/etc/passwd", 126), ("/no/such", 127)])
def test_a_command_that_cannot_run_is_told_from_inside(daemon: Daemon, command: str, code: int) -> None:
    """The container starts, as with docker."""
    output = daemon.run(command, HostConfig=host())
    assert output.status == code and f"exec {command} failed".encode() in output.stderr


def test_a_file_without_a_first_line_is_the_shells(daemon: Daemon) -> None:
    """As with tini, which executes by execvp(3); what only execve(2) refuses is told in its words."""
    script = "echo 'echo text $0 $1' > /x; printf '#!/a\\r\\n' > /y; chmod +x /x /y; "
    run = "/sbin/docker-init -- /x arg; /sbin/docker-init -- /y; echo $?"
    output = daemon.run("sh", "-c", script + run, HostConfig=host())
    assert output.stdout == b"text /x arg\n127\n"
    assert output.stderr == b"docker-init: exec /y failed: no such file or directory\n"


@pytest.mark.parametrize("signal", ["TERM", "INT", "HUP", "USR1", "USR2", "WINCH", "QUIT", "ALRM", "RTMIN", "RTMAX"])
def test_every_signal_is_passed_on(daemon: Daemon, container: Callable[..., str], signal: str) -> None:
    """To the command, which has its own way with it."""
    number = {"RTMIN": "34", "RTMAX": "64"}.get(signal, signal)
    script = f"trap 'echo got it; exit 3' {number}; echo ready; while :; do sleep 0.05; done"
    one = container("sh", "-c", script, HostConfig=host())
    daemon.begin(one)
    until_says(daemon, one, b"ready")
    assert daemon.request("POST", f"/containers/{one}/kill?signal={signal}").status == 204
    assert daemon.wait(one) == 3 and b"got it" in daemon.logs(one)


@pytest.mark.alone
def test_a_command_without_a_handler_ends_at_once(daemon: Daemon, container: Callable[..., str]) -> None:
    """A process 1 would ignore the signal."""
    one = container("sh", "-c", "echo ready; exec sleep 60", HostConfig=host())
    daemon.begin(one)
    until_says(daemon, one, b"ready")  # a signal before the init listens is the kernel's to drop
    begun = time.monotonic()
    daemon.request("POST", f"/containers/{one}/stop?t=20")
    assert daemon.wait(one) == 143 and time.monotonic() - begun < 5


def test_what_others_leave_is_reaped(daemon: Daemon, container: Callable[..., str]) -> None:
    """A hundred orphans: no zombie stays."""
    script = (
        "for i in $(seq 100); do sh -c 'sleep 0.01 & true'; done; "
        "until [ $(ls /proc | grep -c '^[0-9]*$') -le 6 ]; do sleep 0.05; done; echo reaped; sleep 600"
    )
    one = container("sh", "-c", script, HostConfig=host())
    daemon.begin(one)
    until_says(daemon, one, b"reaped\n")


def test_the_command_has_the_terminal_and_its_job_control(daemon: Daemon, container: Callable[..., str]) -> None:
    """It leads the group in the foreground."""
    script = (
        "read -r pid name state parent group session tty front rest < /proc/self/stat; echo $((group - front)) of $tty"
    )
    one = container("sh", "-c", script, Tty=True, HostConfig=host())
    daemon.begin(one)
    assert daemon.wait(one) == 0
    said = daemon.logs(one).split()
    assert said[0] == b"0" and int(said[2]) > 0


def test_the_program_cannot_be_written_from_inside(daemon: Daemon) -> None:
    """It is the host's file, and read-only (CVE-2019-5736)."""
    script = "for f in /sbin/docker-init /proc/1/exe; do echo x > $f || echo kept; done"
    before = PROGRAM.read_bytes()
    for more in ({}, {"CapAdd": ["ALL"]}):
        assert daemon.run("sh", "-c", script, HostConfig=host(**more)).stdout == b"kept\nkept\n"
    assert PROGRAM.read_bytes() == before


def test_a_user_and_no_new_privileges_change_nothing(daemon: Daemon) -> None:
    """It needs no right of its own."""
    body = {"User": "1000:1000", "HostConfig": host(SecurityOpt=["no-new-privileges"], CapDrop=["ALL"])}
    assert daemon.shell("id -u", **body) == "1000"


def test_in_the_hosts_pid_namespace_there_is_none(daemon: Daemon) -> None:
    """There is a process 1 already."""
    assert "docker-init" not in daemon.shell("cat /proc/$$/cmdline", HostConfig=host(PidMode="host"))


def test_the_daemons_default_and_its_path(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """--init, --init-path; a container's own word counts more."""
    other = tmp_path / "other-init"
    other.write_bytes(PROGRAM.read_bytes())
    other.chmod(0o755)
    own = make_daemon("--init", f"--init-path={other}")
    own.import_busybox()
    script = "cat /proc/1/cmdline; ls -i /sbin/docker-init 2>/dev/null"
    said = own.shell(script, HostConfig=host(Init=None))
    assert said.startswith("/sbin/docker-init") and f"{os.stat(other).st_ino} /sbin/docker-init" in said
    assert "docker-init" not in own.run("cat", "/proc/1/cmdline", HostConfig=host(Init=False)).stdout.decode()


def test_without_a_program_the_start_says_so(make_daemon: Callable[..., Daemon]) -> None:
    """And nothing runs without it in silence."""
    own = make_daemon("--init-path=/no/such/init")
    own.import_busybox()
    one = own.create("true", HostConfig=host())
    answer = own.request("POST", f"/containers/{one}/start")
    assert answer.status == 500 and "/no/such/init" in answer.message
    own.remove(one)
