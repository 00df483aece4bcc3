"""The engine's own client against the engine's own daemon."""

import shutil
import signal
import subprocess
import sys
import uuid

import pytest

COMMAND = (sys.executable, "-m", "engine")


@pytest.fixture
def named(engine):
    """A container's name that is gone after the test."""
    name = f"own-{uuid.uuid4().hex[:12]}"
    yield name
    engine("rm", "-f", name)


def test_run_prints_what_the_container_says(engine):
    result = engine("run", "--rm", "busybox", "echo", "hi")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"hi\n", b"")


def test_stderr_and_the_exit_code_are_kept(engine):
    result = engine("run", "--rm", "busybox", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr) == (7, b"out\n", b"err\n")


def test_input_goes_through_to_its_end(engine):
    data = bytes(range(256)) * 8192
    result = engine("run", "-i", "--rm", "busybox", "cat", input=data)
    assert (result.returncode, result.stdout == data) == (0, True)


@pytest.mark.parametrize("rm", [[], ["--rm"]])
@pytest.mark.parametrize(("command", "status"), [("nosuchcmd", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_run_gives_dockers_status(engine, named, rm, command, status):
    result = engine("run", *rm, "--name", named, "busybox", command)
    assert (result.returncode, result.stdout) == (status, b"")
    assert command.encode() in result.stderr


def test_options_reach_the_container(engine):
    words = ["-e", "A=b", "-w", "/tmp", "-u", "1:2", "--network", "none", "-m", "64m", "--entrypoint", "sh"]
    result = engine("run", "--rm", *words, "busybox", "-c", "echo $A; pwd; id -u; id -g")
    assert result.stdout.split() == [b"b", b"/tmp", b"1", b"2"]


def test_a_signal_to_the_client_reaches_the_container(engine):
    script = "trap 'echo term; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    command = [*COMMAND, "run", "--rm", "busybox", "sh", "-c", script]
    with subprocess.Popen(command, env=engine.environment, stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"ready\n"
        client.send_signal(signal.SIGTERM)
        assert client.stdout.read() == b"term\n"
    assert client.returncode == 9


def test_a_terminal_is_one_and_the_exit_code_comes_back(engine):
    pexpect = pytest.importorskip("pexpect", reason="needs pexpect: pip install pexpect")
    command, *words = [*COMMAND, "run", "--rm", "-it", "busybox", "sh"]
    child = pexpect.spawn(command, words, env=engine.environment, timeout=60)
    child.expect("/ # ")
    child.sendline("tty && echo to\\gether")
    child.expect("/dev/pts/0")
    child.expect("together")
    child.sendline("exit 5")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 5


def test_the_detach_keys_leave_the_container_running(engine, named):
    pexpect = pytest.importorskip("pexpect", reason="needs pexpect: pip install pexpect")
    command, *words = [*COMMAND, "run", "-it", "--name", named, "busybox", "sh"]
    child = pexpect.spawn(command, words, env=engine.environment, timeout=60)
    child.expect("/ # ")
    child.send("\x10\x11")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert named.encode() in engine("ps").stdout


def test_ps_logs_and_rm(engine, named):
    identity = engine("run", "-d", "--name", named, "busybox", "sh", "-c", "echo out; echo err >&2").stdout.strip()
    assert len(identity) == 64
    followed = engine("logs", "-f", named)
    assert (followed.stdout, followed.stderr) == (b"out\n", b"err\n")
    assert engine("ps", "-aq", "--no-trunc", "-f", f"name={named}").stdout.strip() == identity
    assert engine("rm", "-f", named).stdout.decode() == f"{named}\n"
    assert engine("rm", named).returncode == 1


def test_images_and_version(engine):
    assert b"busybox" in engine("images").stdout
    assert engine("images", "-q", "own/none").stdout == b""
    facts = engine("version").stdout.decode().partition("Daemon:\n")[2].split()
    assert facts[0:3:2] == ["Engine", "Version"] and facts[3].endswith(f"+engine{facts[1]}")


def test_a_pull_that_cannot_be_is_an_error(engine):
    result = engine("pull", "localhost:1/nope")
    assert (result.returncode, result.stdout) == (1, b"Using default tag: latest\n")
    assert result.stderr.startswith(b"Error response from daemon: ")


def test_an_image_from_the_host_runs(engine):
    if shutil.which("dash") is None:
        pytest.skip("needs dash")
    result = engine("image-from-host", "own/host:1", "sh", "cat")
    assert result.returncode == 0, result
    result = engine("run", "--rm", "-i", "own/host:1", "sh", "-c", "cat; exit 3", input=b"whole")
    assert (result.returncode, result.stdout) == (3, b"whole")


def test_a_reader_that_leaves_early_is_no_error(engine):
    command = [*COMMAND, "run", "--rm", "busybox", "seq", "1", "100000"]
    with subprocess.Popen(command, env=engine.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"1\n"
        client.stdout.close()
        assert client.stderr.read() == b""
    assert client.returncode == 141
