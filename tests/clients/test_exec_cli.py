"""`docker exec` of the real CLI: its options, its input, its exit statuses, its terminal."""

import time

import pytest

from tests.clients.cli import said

pexpect = pytest.importorskip("pexpect", reason="needs pexpect: pip install pexpect")


@pytest.fixture
def box(docker, container, daemon):
    """A container that runs, by its id."""
    one = container("sleep", "600", Env=["COLOUR=red"])
    daemon.begin(one)
    return one


def test_both_streams_and_the_exit_status_come_back(docker, box):
    result = docker("exec", box, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr) == (7, b"out\n", b"err\n")


def test_input_goes_through_to_its_end(docker, box):
    data = bytes(range(256)) * 8192
    result = docker("exec", "-i", box, "cat", input=data)
    assert (result.returncode, result.stdout == data) == (0, True)


def test_a_detached_exec_prints_nothing_and_runs(docker, box):
    assert said(docker("exec", "-d", box, "sh", "-c", "echo done > /tmp/done; sleep 60")) == ""
    for _ in range(100):
        if docker("exec", box, "cat", "/tmp/done").stdout == b"done\n":
            return
        time.sleep(0.05)
    raise AssertionError("it never ran")


def test_options_reach_the_command(docker, box):
    words = ["-e", "SHAPE=round", "-e", "COLOUR=blue", "-u", "1000:1001", "-w", "/etc"]
    script = "echo $SHAPE $COLOUR; id -u; id -g; pwd"
    assert said(docker("exec", *words, box, "sh", "-c", script)) == "round blue\n1000\n1001\n/etc\n"


def test_env_file(docker, box, tmp_path):
    file = tmp_path / "env"
    file.write_text("FROM=file\n")
    assert said(docker("exec", "--env-file", str(file), box, "sh", "-c", "echo $FROM")) == "file\n"


def test_privileged(docker, box):
    script = "grep CapEff /proc/self/status"
    plain = said(docker("exec", box, "sh", "-c", script))
    more = said(docker("exec", "--privileged", box, "sh", "-c", script))
    assert int(more.split()[1], 16) > int(plain.split()[1], 16)


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [("nosuchcmd", 127, b"executable file not found"), ("/etc/passwd", 126, b"permission denied")],
)
def test_a_command_that_cannot_run_gives_dockers_status(docker, box, command, status, text):
    result = docker("exec", box, command)
    assert (result.returncode, text in result.stdout + result.stderr) == (status, True)


def test_a_container_that_does_not_run_is_said_so(docker, container):
    one = container("true")
    result = docker("exec", one, "true")
    assert (result.returncode, b"is not running" in result.stderr) == (1, True)


def test_a_terminal_with_its_size_and_detach_keys(docker, box):
    """`docker exec -it`: an echo, the size of the terminal around it, resize, and the keys that leave it running."""
    words = ["exec", "-it", "--detach-keys", "ctrl-a,x", box, "sh"]
    client = pexpect.spawn("docker", words, env=docker.environment, dimensions=(30, 90), timeout=60)
    client.expect("[#$] ")
    for _ in range(50):
        client.sendline("stty size")
        if client.expect(["30 90", "0 0"]) == 0:
            break
        time.sleep(0.1)
    client.setwinsize(40, 120)
    for _ in range(50):
        client.sendline("stty size")
        if client.expect(["40 120", "30 90"]) == 0:
            break
        time.sleep(0.1)
    client.sendline("echo $TERM")
    client.expect("xterm")
    client.send("\x01x")
    client.expect(pexpect.EOF)
    client.close()
    assert said(docker("exec", box, "sh", "-c", "ps | grep -c '[s]h$'")) == "1\n"
