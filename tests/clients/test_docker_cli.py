"""The docker CLI: what its users do all day."""

import json
import shutil
import signal
import subprocess
import time

import pytest

from tests.clients.cli import said

pexpect = pytest.importorskip("pexpect", reason="needs pexpect: pip install pexpect")

MEGABYTE = 1 << 20


@pytest.fixture
def named(docker, request):
    """A container's name that is gone after the test."""
    name = f"cli-{abs(hash(request.node.name)):x}"
    yield name
    docker("rm", "-f", name)


def test_the_client_and_the_daemon_agree_on_a_version(docker):
    found = json.loads(said(docker("version", "--format", "{{json .}}")))
    assert found["Server"]["Os"] == "linux"
    assert found["Client"]["ApiVersion"] <= found["Server"]["ApiVersion"]


def test_info_is_understood(docker):
    assert json.loads(said(docker("info", "--format", "{{json .}}")))["OSType"] == "linux"


def test_run_prints_what_the_container_says(docker):
    assert said(docker("run", "--rm", "busybox", "echo", "hi")) == "hi\n"


def test_input_goes_through_to_its_end(docker):
    data = bytes(range(256)) * (MEGABYTE // 256) * 2
    result = docker("run", "-i", "--rm", "busybox", "cat", input=data)
    assert (result.returncode, result.stdout == data) == (0, True)


def test_stderr_is_kept_apart_from_stdout(docker):
    result = docker("run", "--rm", "busybox", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr) == (7, b"out\n", b"err\n")


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [("nosuchcmd", 127, b"executable file not found"), ("/etc/passwd", 126, b"permission denied")],
)
def test_a_command_that_cannot_run_gives_dockers_status(docker, named, command, status, text):
    result = docker("run", "--rm", "--name", named, "busybox", command)
    assert (result.returncode, text in result.stderr) == (status, True)
    assert b"Error waiting" not in result.stderr


def test_options_reach_the_container(docker):
    words = ["-e", "A=b", "-w", "/tmp", "-u", "1:2", "--hostname", "h", "--network", "none", "-m", "64m"]
    script = "echo $A; pwd; id -u; id -g; hostname; ls /sys/class/net"
    assert said(docker("run", "--rm", *words, "busybox", "sh", "-c", script)).split() == [
        *("b", "/tmp", "1", "2", "h"),
        "lo",
    ]


def test_a_terminal_is_one(docker, named):
    child = pexpect.spawn(
        shutil.which("docker"),
        ["run", "--rm", "-it", "--name", named, "busybox", "sh"],
        env=docker.environment,
        timeout=60,
    )
    child.expect("/ # ")
    child.sendline("tty && echo to\\gether")
    child.expect("/dev/pts/0")
    child.expect("together")
    child.sendline("exit 5")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 5


def test_the_detach_keys_leave_the_container_running(docker, named):
    child = pexpect.spawn(
        shutil.which("docker"), ["run", "-it", "--name", named, "busybox", "sh"], env=docker.environment, timeout=60
    )
    child.expect("/ # ")
    child.send("\x10\x11")
    child.expect(pexpect.EOF)
    child.close()
    assert said(docker("inspect", "-f", "{{.State.Running}}", named)) == "true\n"


def test_a_detached_container_is_listed_logged_stopped_and_removed(docker, named):
    script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    identity = said(docker("run", "-d", "--name", named, "busybox", "sh", "-c", script)).strip()
    assert len(identity) == 64
    assert identity in said(docker("ps", "-q", "--no-trunc"))
    assert said(docker("ps", "--filter", f"name={named}", "--format", "{{.Names}} {{.State}}")) == f"{named} running\n"
    follow = subprocess.Popen(["docker", "logs", "-f", named], env=docker.environment, stdout=subprocess.PIPE)
    with follow:
        assert follow.stdout.readline() == b"ready\n"
        assert said(docker("stop", named)) == f"{named}\n"
        assert follow.stdout.read() == b"bye\n"
    assert said(docker("wait", named)) == "3\n"
    assert said(docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", named)) == "exited 3\n"
    assert said(docker("logs", "--tail", "1", named)) == "bye\n"
    assert said(docker("rm", named)) == f"{named}\n"
    assert docker("inspect", named).returncode == 1


def test_attach_gives_the_output_from_now_on_and_the_exit_code(docker, named):
    said(docker("create", "-i", "--name", named, "busybox", "sh", "-c", "read line; echo got $line; exit 4"))
    attached = subprocess.Popen(
        ["docker", "start", "-ai", named], env=docker.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    output, _ = attached.communicate(b"word\n", timeout=60)
    assert (output, attached.returncode) == (b"got word\n", 4)


def test_a_signal_to_the_client_reaches_the_container(docker, named):
    script = "trap 'echo int; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    client = subprocess.Popen(
        ["docker", "run", "--rm", "--name", named, "busybox", "sh", "-c", script],
        env=docker.environment,
        stdout=subprocess.PIPE,
    )
    with client:
        assert client.stdout.readline() == b"ready\n"
        client.send_signal(signal.SIGINT)
        assert client.stdout.read() == b"int\n"
    assert client.returncode == 9


def test_kill_ends_with_137(docker, named):
    said(docker("run", "-d", "--name", named, "busybox", "sleep", "60"))
    said(docker("kill", named))
    assert said(docker("wait", named)) == "137\n"


def test_rm_refuses_a_running_container_and_force_removes_it(docker, named):
    said(docker("run", "-d", "--name", named, "busybox", "sleep", "60"))
    assert docker("rm", named).returncode == 1
    assert said(docker("rm", "-f", named)) == f"{named}\n"


def test_rm_on_the_command_line_of_run_leaves_nothing(docker, named):
    said(docker("run", "--rm", "--name", named, "busybox", "true"))
    assert said(docker("ps", "-aq", "--filter", f"name={named}")) == ""


def test_times_and_tails_of_logs(docker, named):
    said(docker("run", "--name", named, "busybox", "sh", "-c", "for i in 1 2 3 4 5; do echo $i; done"))
    assert said(docker("logs", "-n", "2", named)) == "4\n5\n"
    stamped = said(docker("logs", "-t", named)).splitlines()
    assert [line.split()[1] for line in stamped] == list("12345")
    assert stamped[0].startswith(time.strftime("%Y-", time.gmtime()))
    assert said(docker("logs", "--since", "1h", named)).split() == list("12345")
    assert said(docker("logs", "--until", "1h", named)) == ""


def test_images_are_listed_inspected_imported_and_removed(docker, tmp_path):
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "rootfs" / "file").write_text("x")
    subprocess.run(["tar", "-C", tmp_path / "rootfs", "-cf", tmp_path / "x.tar", "."], check=True)
    identity = said(docker("import", str(tmp_path / "x.tar"), "cli/imported:1")).strip()
    assert said(docker("images", "-q", "--no-trunc", "cli/imported")).strip() == identity
    assert said(docker("inspect", "-f", "{{.Id}}", "cli/imported:1")).strip() == identity
    assert "Untagged: cli/imported:1" in said(docker("rmi", "cli/imported:1"))
    assert docker("image", "inspect", "cli/imported:1").returncode == 1


def test_an_image_is_inspected_by_platform(docker):
    platform = said(docker("image", "inspect", "-f", "{{.Os}}/{{.Architecture}}", "busybox")).strip()
    assert said(docker("image", "inspect", "--platform", platform, "-f", "{{.Os}}", "busybox")) == "linux\n"
    other = docker("image", "inspect", "--platform", "linux/s390x", "busybox")
    assert (other.returncode, b"s390x" in other.stderr) == (1, True)


def test_an_image_that_is_nowhere_is_an_error(docker):
    result = docker("run", "--rm", "localhost:1/nope")
    assert result.returncode == 125
    assert b"Unable to find image 'localhost:1/nope:latest' locally" in result.stderr


def test_much_output_comes_whole(docker):
    result = docker("run", "--rm", "busybox", "sh", "-c", "seq 1 300000")
    assert result.stdout == b"".join(b"%d\n" % number for number in range(1, 300001))
