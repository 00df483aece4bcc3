"""Every row of `docker container --help`, and every option of `docker exec`, by the real CLI.

A row is a function here named after its command; the first test reads the client's own help, so that a command which a
newer client brings has to be shown too.
"""

import io
import json
import re
import shutil
import tarfile
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.clients.cli import OPTION, ROW, said
from tests.harness.listening import until

pexpect = pytest.importorskip("pexpect", reason="needs pexpect: pip install pexpect")

SECONDS = 60


@pytest.fixture
def name(docker) -> Iterator[str]:
    """A container's name that is gone after the test."""
    chosen = f"row-{uuid.uuid4().hex[:12]}"
    yield chosen
    docker("rm", "-f", "-v", chosen)


@pytest.fixture
def running(docker, name: str) -> str:
    """A container that talks until it is told to stop."""
    script = "trap 'exit 3' TERM; while :; do echo tick; sleep 0.05; done"
    said(docker("container", "run", "-d", "--name", name, "busybox", "sh", "-c", script))
    until(lambda: b"tick" in docker("container", "logs", name).stdout)  # only then does it obey
    return name


def state(docker, name: str) -> dict:
    """The state of a container."""
    return json.loads(said(docker("container", "inspect", "--format", "{{json .State}}", name)))


def test_every_row_of_the_help_is_shown_here(docker) -> None:
    rows = ROW.findall(said(docker("container", "--help")))
    assert len(rows) > 20
    assert [row for row in rows if f"test_{row}" not in globals()] == []


def test_attach(docker, running: str) -> None:
    child = pexpect.spawn(
        shutil.which("docker"), ["container", "attach", "--no-stdin", running], env=docker.environment, timeout=SECONDS
    )
    child.expect("tick")
    said(docker("container", "kill", "-s", "TERM", running))
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 3


def test_commit(docker, name: str) -> None:
    image = f"{name}:made"
    said(docker("container", "run", "--name", name, "busybox", "sh", "-c", "echo kept > /kept"))
    try:
        said(docker("container", "commit", "-m", "words", "-a", "me", "-c", "ENV A=b", name, image))
        assert said(docker("container", "run", "--rm", image, "sh", "-c", "cat /kept; echo $A")) == "kept\nb\n"
    finally:
        docker("image", "rm", image)


def test_cp(docker, running: str, tmp_path) -> None:
    (tmp_path / "there").write_text("over\n")
    said(docker("container", "cp", str(tmp_path / "there"), f"{running}:/tmp/here"))
    assert said(docker("container", "exec", running, "cat", "/tmp/here")) == "over\n"
    said(docker("container", "cp", f"{running}:/tmp/here", str(tmp_path / "back")))
    assert (tmp_path / "back").read_text() == "over\n"
    streamed = docker("container", "cp", f"{running}:/tmp/here", "-")
    with tarfile.open(fileobj=io.BytesIO(streamed.stdout)) as archive:
        assert archive.getnames() == ["here"]


def test_create(docker, name: str) -> None:
    said(docker("container", "create", "--name", name, "busybox", "true"))
    assert state(docker, name)["Status"] == "created"


def test_diff(docker, name: str) -> None:
    said(docker("container", "run", "--name", name, "busybox", "sh", "-c", "echo > /added; rm /bin/ls"))
    assert {"A /added", "D /bin/ls", "C /bin"} <= set(said(docker("container", "diff", name)).splitlines())


def test_exec(docker, running: str) -> None:
    result = docker("container", "exec", running, "sh", "-c", "echo out; echo err >&2; exit 4")
    assert (result.returncode, result.stdout, result.stderr) == (4, b"out\n", b"err\n")


def test_export(docker, name: str, tmp_path) -> None:
    said(docker("container", "run", "--name", name, "busybox", "sh", "-c", "echo out > /exported"))
    said(docker("container", "export", "-o", str(tmp_path / "tar"), name))
    with tarfile.open(tmp_path / "tar") as archive:
        assert archive.extractfile("exported").read() == b"out\n"


def test_inspect(docker, running: str) -> None:
    (found,) = json.loads(said(docker("container", "inspect", "--size", running)))
    assert (found["Name"], found["State"]["Running"], found["SizeRootFs"] > 0) == (f"/{running}", True, True)
    assert docker("container", "inspect", "no-such-container").returncode == 1


def test_kill(docker, running: str) -> None:
    said(docker("container", "kill", running))
    assert said(docker("container", "wait", running)) == "137\n"


def test_logs(docker, name: str) -> None:
    said(docker("container", "run", "--name", name, "busybox", "sh", "-c", "echo 1; echo 2; echo 3"))
    assert said(docker("container", "logs", name)) == "1\n2\n3\n"
    assert said(docker("container", "logs", "-n", "1", "--details", name)).split() == ["3"]
    assert re.fullmatch(r"\d{4}-\S+Z 3\n", said(docker("container", "logs", "-t", "--tail", "1", "-f", name)))


def test_ls(docker, running: str) -> None:
    shown = said(docker("container", "ls", "--filter", f"name={running}", "--format", "{{.Names}} {{.State}}"))
    assert shown == f"{running} running\n"
    assert running in said(docker("container", "ls", "-a", "-s", "--no-trunc"))
    assert len(said(docker("container", "ls", "-q", "-n", "1")).split()) == 1


def test_pause(docker, running: str) -> None:
    said(docker("container", "pause", running))
    assert state(docker, running)["Paused"] is True
    assert "(Paused)" in said(docker("container", "ls", "--filter", f"name={running}", "--format", "{{.Status}}"))
    refused = docker("container", "exec", running, "true")
    assert (refused.returncode, b"paused" in refused.stderr) == (1, True)
    said(docker("container", "unpause", running))


def test_port(docker, running: str) -> None:
    assert said(docker("container", "port", running)) == ""


def test_prune(own_daemon) -> None:
    kept = own_daemon.create("sleep", "60")
    own_daemon.begin(kept)
    gone = own_daemon.create("true")
    shown = own_daemon.command("docker", "container", "prune", "-f")
    assert gone in said(shown) and kept not in said(shown) and "Total reclaimed space" in said(shown)
    assert own_daemon.request("GET", f"/containers/{gone}/json").status == 404


def test_rename(docker, running: str) -> None:
    said(docker("container", "rename", running, f"{running}-new"))
    try:
        assert state(docker, f"{running}-new")["Running"] is True
        assert docker("container", "inspect", running).returncode == 1
    finally:
        said(docker("container", "rename", f"{running}-new", running))


def test_restart(docker, running: str) -> None:
    before = state(docker, running)["Pid"]
    said(docker("container", "restart", "-t", "5", running))
    after = state(docker, running)
    assert (after["Running"], after["Pid"] != before) == (True, True)


def test_rm(docker, running: str) -> None:
    refused = docker("container", "rm", running)
    assert (refused.returncode, b"container is running" in refused.stderr) == (1, True)
    assert said(docker("container", "rm", "-f", running)) == f"{running}\n"


def test_run(docker) -> None:
    result = docker("container", "run", "--rm", "-i", "busybox", "sh", "-c", "cat; exit 9", input=b"through")
    assert (result.returncode, result.stdout) == (9, b"through")


def test_start(docker, name: str) -> None:
    said(docker("container", "create", "-i", "--name", name, "busybox", "sh", "-c", "cat; exit 2"))
    result = docker("container", "start", "-a", "-i", name, input=b"begun")
    assert (result.returncode, result.stdout) == (2, b"begun")


def test_stats(docker, running: str) -> None:
    shown = json.loads(said(docker("container", "stats", "--no-stream", "--format", "json", running)))
    assert shown["Name"] == running and shown["PIDs"] != "0" and shown["MemUsage"].partition(" / ")[0] != "0B"


def test_stop(docker, running: str) -> None:
    said(docker("container", "stop", "-t", "10", running))
    assert state(docker, running)["ExitCode"] == 3


def test_top(docker, running: str) -> None:
    first, *rest = said(docker("container", "top", running)).splitlines()
    assert first.split() == ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"]
    assert any("trap" in row for row in rest)
    pids = said(docker("container", "top", running, "-o", "pid,comm")).splitlines()
    assert pids[0].split() == ["PID", "COMMAND"]


def test_unpause(docker, running: str) -> None:
    said(docker("container", "pause", running))
    said(docker("container", "unpause", running))
    assert state(docker, running)["Status"] == "running"
    assert said(docker("container", "exec", running, "echo", "again")) == "again\n"


def test_update(docker, running: str) -> None:
    said(docker("container", "update", "--memory", "64m", "--memory-swap", "64m", "--restart", "on-failure:2", running))
    shown = json.loads(said(docker("container", "inspect", "--format", "{{json .HostConfig}}", running)))
    assert (shown["Memory"], shown["RestartPolicy"]["MaximumRetryCount"]) == (64 << 20, 2)


def test_wait(docker, running: str) -> None:
    said(docker("container", "kill", "-s", "TERM", running))
    assert said(docker("container", "wait", running)) == "3\n"


# The options of exec: the words that use each, and what the command says with it.

Words = Callable[[object], list[str]]
EXEC_OPTIONS: dict[str, tuple[Words, list[str], str]] = {
    "env": (lambda path: ["-e", "A=given"], ["sh", "-c", "echo $A"], "given\n"),
    "env-file": (lambda path: ["--env-file", str(path)], ["sh", "-c", "echo $B"], "filed\n"),
    "interactive": (lambda path: ["-i"], ["cat"], "sent"),
    "privileged": (lambda path: ["--privileged"], ["sh", "-c", "grep -c 'CapEff:.*f' /proc/self/status"], "1\n"),
    "user": (lambda path: ["-u", "12:34"], ["sh", "-c", "id -u; id -g"], "12\n34\n"),
    "workdir": (lambda path: ["-w", "/tmp"], ["pwd"], "/tmp\n"),
}
ELSEWHERE = {"detach", "detach-keys", "tty", "help"}


def test_every_option_of_exec_is_shown_here(docker) -> None:
    assert set(OPTION.findall(said(docker("exec", "--help")))) <= EXEC_OPTIONS.keys() | ELSEWHERE


@pytest.mark.parametrize("option", EXEC_OPTIONS)
def test_an_option_of_exec(docker, running: str, tmp_path, option: str) -> None:
    words, command, expected = EXEC_OPTIONS[option]
    path = tmp_path / "environment"
    path.write_text("B=filed\n")
    assert said(docker("exec", *words(path), running, *command, input=b"sent")) == expected


def test_exec_detached(docker, running: str) -> None:
    assert said(docker("exec", "-d", running, "sh", "-c", "echo done > /tmp/detached")) == ""
    script = "for i in $(seq 1000); do [ -s /tmp/detached ] && break; sleep 0.05; done; cat /tmp/detached"
    assert said(docker("exec", running, "sh", "-c", script)) == "done\n"


def test_exec_with_a_terminal_and_its_detach_keys(docker, running: str) -> None:
    words = ["exec", "-it", "--detach-keys", "ctrl-x,q", running, "sh"]
    child = pexpect.spawn(shutil.which("docker"), words, env=docker.environment, timeout=SECONDS)
    child.expect("# ")
    child.sendline("tty; touch /tmp/lives")
    child.expect("/dev/pts/")
    child.send("\x18q")
    child.expect(pexpect.EOF)
    child.close()
    assert said(docker("exec", running, "sh", "-c", "ls /tmp/lives; pidof sh | wc -w")).split()[0] == "/tmp/lives"
