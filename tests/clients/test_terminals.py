"""Terminals, driven as a person does: the docker CLI in a pty, typed at and resized, every wait with a time limit."""

import json
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.clients.building import Building

pexpect = pytest.importorskip("pexpect", reason="needs pexpect: pip install pexpect")

SECONDS = 40
PROMPT = "/ # "
READY = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture
def named(docker) -> Iterator[str]:
    """A container's name that is gone after the test."""
    name = f"tty-{uuid.uuid4().hex[:10]}"
    yield name
    docker("rm", "-f", name)


@pytest.fixture
def spawn(docker) -> Iterator[Callable]:
    """Run the CLI in a terminal of 24 rows and 80 columns: `spawn("run", "-it", ...)`."""
    children = []

    def start(*words: str, **options: object):
        child = pexpect.spawn(
            shutil.which("docker"),
            list(words),
            env=options.pop("env", docker.environment),
            timeout=SECONDS,
            dimensions=(24, 80),
            echo=False,
            **options,
        )
        child.delaybeforesend = None
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


def ended(child) -> int:
    """The exit status, once it has ended."""
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def typed_at(child) -> None:
    """Wait until the shell answers: what is typed while it sets up its terminal may be lost, on a busy machine."""
    for _ in range(SECONDS):
        child.send("\n")
        if child.expect_exact([PROMPT, pexpect.TIMEOUT], timeout=1) == 0:
            return
    raise AssertionError(f"no prompt: {child}")


def resize(child, rows: int, columns: int) -> None:
    """Change the terminal until the container tells its new size: the client may not listen for SIGWINCH yet."""
    child.setwinsize(rows, columns)
    for _ in range(SECONDS):
        child.kill(signal.SIGWINCH)
        if child.expect_exact([f"{rows} {columns}\r", pexpect.TIMEOUT], timeout=1) == 0:
            return
    raise AssertionError(f"the container still has another size: {child}")


def running(docker, name: str) -> bool:
    """Whether the container runs."""
    result = docker("inspect", "-f", "{{.State.Running}}", name)
    assert result.returncode == 0, result
    return result.stdout == b"true\n"


def test_a_shell_prompts_echoes_and_ends_with_its_status(spawn, named):
    """`docker run -it`"""
    child = spawn("run", "--rm", "-it", "--name", named, "busybox", "sh")
    child.expect_exact(PROMPT)
    child.sendline("echo to''gether; tty")
    child.expect_exact("echo to''gether")  # what was typed comes back
    child.expect_exact("together")
    child.expect_exact("/dev/pts/0")
    child.sendline("exit 5")
    assert ended(child) == 5


def test_control_c_interrupts_the_command_and_not_the_shell(spawn, named):
    """The line discipline makes the signal."""
    child = spawn("run", "--rm", "-it", "--name", named, "busybox", "sh")
    child.expect_exact(PROMPT)
    child.sendline("sh -c 'echo be''gun; exec sleep 60'")
    child.expect_exact("begun")  # said by what is the terminal's foreground
    child.send("\x03")
    child.expect_exact(PROMPT)
    child.sendline("echo status $?")
    child.expect_exact("status 130")
    child.expect_exact(PROMPT)
    child.send("\x04")
    assert ended(child) == 0


def test_the_size_is_the_terminals_and_follows_it(spawn, named):
    """At the start, and with SIGWINCH when it changes."""
    script = "trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.05; done"
    child = spawn("run", "--rm", "-it", "--name", named, "busybox", "sh", "-c", script)
    child.expect_exact("ready")
    resize(child, 31, 79)
    resize(child, 50, 132)


def test_a_command_beside_has_a_terminal_of_its_own(docker, spawn, named):
    """`docker exec -it`: prompt, size, resize, Ctrl-C, exit status."""
    assert docker("run", "-d", "--name", named, "busybox", "sh", "-c", READY).returncode == 0
    child = spawn("exec", "-it", named, "sh")
    child.expect_exact(PROMPT)
    child.sendline("tty; until stty size | grep '31 79'; do sleep 0.05; done")
    child.expect_exact("/dev/pts/0")
    resize(child, 31, 79)
    child.expect_exact(PROMPT)
    child.sendline("exit 9")
    assert ended(child) == 9
    assert running(docker, named)


@pytest.mark.parametrize("verb", ["run", "exec", "attach"])
def test_the_detach_keys_leave_it_running(docker, spawn, named, verb):
    """ctrl-p ctrl-q, whichever way one came in."""
    if verb == "run":
        child = spawn("run", "-it", "--name", named, "busybox", "sh")
    else:
        assert docker("run", "-dit", "--name", named, "busybox", "sh").returncode == 0
        child = spawn("exec", "-it", named, "sh") if verb == "exec" else spawn("attach", named)
    typed_at(child)
    child.send("\x10\x11")
    child.expect(pexpect.EOF)
    child.close()
    assert running(docker, named)


def test_detach_keys_of_ones_own(docker, spawn, named, tmp_path):
    """By an option, and by the configuration of the client; the usual ones then are input like any other."""
    assert docker("run", "-dit", "--name", named, "busybox", "sh").returncode == 0
    (tmp_path / "config.json").write_text(json.dumps({"detachKeys": "ctrl-e,e"}))
    configured = {**docker.environment, "DOCKER_CONFIG": str(tmp_path)}
    for words, keys, options in (
        (("--detach-keys", "ctrl-a,x"), "\x01x", {}),
        ((), "\x05e", {"env": configured}),
    ):
        child = spawn("attach", *words, named, **options)
        typed_at(child)
        child.send("\x10\x11")
        child.send("\x03")
        child.sendline("echo still $((40 + 2))")
        child.expect_exact("still 42")
        child.send(keys)
        child.expect(pexpect.EOF)
        child.close()
        assert running(docker, named)


def test_two_are_attached_to_one_container(docker, spawn, named):
    """Both see what either types, and its output; both end with it, with its status."""
    assert docker("run", "-dit", "--name", named, "busybox", "sh").returncode == 0
    first, second = spawn("attach", named), spawn("attach", named)
    for child in (first, second):
        typed_at(child)
    for number, child in enumerate((first, second)):
        child.sendline(f"echo from $(({number} + 70))")
        for each in (first, second):
            each.expect_exact(f"from 7{number}")
    first.sendline("exit 4")
    assert (ended(first), ended(second)) == (4, 4)


def test_one_that_is_killed_leaves_the_other(docker, spawn, named):
    """And the container."""
    assert docker("run", "-dit", "--name", named, "busybox", "sh").returncode == 0
    first, second = spawn("attach", named), spawn("attach", named)
    for child in (first, second):
        typed_at(child)
    first.kill(signal.SIGKILL)
    second.sendline("echo alive $((1 + 1))")
    second.expect_exact("alive 2")
    second.sendline("exit")
    assert ended(second) == 0


def test_a_container_is_started_again_in_the_terminal(docker, spawn, named):
    """`docker start -ai`, twice: each run is a new one."""
    assert docker("create", "-it", "--name", named, "busybox", "sh").returncode == 0
    for status in (6, 7):
        child = spawn("start", "-ai", named)
        child.expect_exact(PROMPT)
        child.sendline(f"exit {status}")
        assert ended(child) == status


def test_input_is_closed_alone(docker):
    """`echo x | docker run -i`: the end of the input comes through, and the output after it comes back."""
    result = docker("run", "--rm", "-i", "busybox", "sh", "-c", "wc -c; echo later", input=b"x" * 100_000)
    assert (result.returncode, result.stdout.split()) == (0, [b"100000", b"later"])


def test_a_terminal_on_one_side_only_is_refused_by_the_client(docker, named):
    """`-t` without a terminal for the input."""
    result = docker("run", "--name", named, "-it", "busybox", "true", input=b"")
    assert result.returncode != 0 and b"TTY" in result.stderr.upper()


@pytest.mark.parametrize("proxied", [True, False])
def test_signals_to_the_client_are_the_containers_or_its_own(docker, named, proxied):
    """--sig-proxy"""
    words = ["docker", "run", f"--sig-proxy={str(proxied).lower()}", "--name", named, "busybox", "sh", "-c", READY]
    with subprocess.Popen(words, env=docker.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
        try:
            assert client.stdout.readline() == b"ready\n"
            client.send_signal(signal.SIGTERM)
            if proxied:
                assert client.wait(SECONDS) == 3
            time.sleep(0.5)
            assert running(docker, named) != proxied
        finally:
            client.kill()


def test_much_output_comes_through_a_terminal_whole(spawn, named):
    """Line ends are the terminal's; every line is there, in order."""
    child = spawn("run", "--rm", "-it", "--name", named, "busybox", "seq", "1", "5000")
    child.expect(pexpect.EOF)
    assert child.before.split() == [b"%d" % number for number in range(1, 5001)]


def test_the_terminal_of_the_client_is_as_before(docker, spawn, named):
    """After a detach and after an end: the shell that called docker can go on."""
    shell = pexpect.spawn("/bin/sh", env={**docker.environment, "PS1": "host> "}, timeout=SECONDS, echo=False)
    try:
        shell.expect_exact("host> ")
        shell.sendline("stty -g")
        shell.expect("([0-9a-f]+:[0-9a-f:]+)")
        before = shell.match[1]
        shell.sendline(f"docker run --rm -it --name {named} busybox sh")
        shell.expect_exact(PROMPT)
        shell.sendline("exit")
        shell.expect_exact("host> ")
        shell.sendline("stty -g")
        shell.expect("([0-9a-f]+:[0-9a-f:]+)")
        assert shell.match[1] == before
    finally:
        shell.close(force=True)


def containers(buildx: Building) -> set[str]:
    """The ids of all that its daemon has."""
    return {each["Id"] for each in buildx.daemon.request("GET", "/containers/json?all=1").json()}


def test_control_c_ends_a_build(spawn: Callable, buildx: Building) -> None:
    """buildx draws what goes on there. Its words end with the step's, and the step's container with them."""
    before = containers(buildx)
    buildx.write("RUN echo be''gun; sleep 1000")
    environment = {**buildx.environment, "BUILDKIT_PROGRESS": "tty"}
    child = spawn("build", ".", env=environment, cwd=str(buildx.place))
    child.expect_exact("begun")
    child.sendintr()
    assert ended(child) == 130
    end = time.monotonic() + SECONDS
    while containers(buildx) - before:
        assert time.monotonic() < end, "the container of the step is still there"
        time.sleep(0.05)


def test_what_a_failed_step_has_left_is_looked_at(spawn: Callable, buildx: Building) -> None:
    """buildx makes a container of it, in which a shell runs. Nothing stays once the client has gone."""
    before = containers(buildx)
    buildx.write("RUN echo le''ft > /file; exit 3")
    environment = {**buildx.environment, "BUILDX_EXPERIMENTAL": "1"}
    words = ("buildx", "debug", "--invoke=/bin/sh", "build", ".")
    child = spawn(*words, env=environment, cwd=str(buildx.place))
    child.expect_exact("did not complete successfully: exit code: 3")
    child.expect_exact("# ")
    child.sendline("cat /file")
    child.expect("left\r+\n")
    child.close(force=True)
    end = time.monotonic() + SECONDS
    while containers(buildx) - before:
        assert time.monotonic() < end, "a container is still there"
        time.sleep(0.05)
