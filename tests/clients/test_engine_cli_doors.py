"""The engine's own client by TLS and ssh, its `system dial-stdio` for other clients, completions, and its speed."""

import os
import resource
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.clients.cli import said

COMMAND = (sys.executable, "-m", "engine")
CERTIFICATES = Path(__file__).resolve().parents[1] / "unit" / "api" / "certificates"
PORT = 2377
STARTS = 4  # of Python alone
DATA = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def tls_daemon(world):
    """A daemon that listens on TCP too, with busybox."""
    files = {"--tlscacert": "ca.pem", "--tlscert": "server.pem", "--tlskey": "server.pem"}
    options = [part for name, file in files.items() for part in (name, str(CERTIFICATES / file))]
    daemon = world.daemon(["-H", f"tcp://127.0.0.1:{PORT}", "--tlsverify", *options]).start()
    daemon.import_busybox()
    yield daemon
    daemon.close()


@pytest.fixture
def by_tls(tls_daemon, tmp_path):
    """The client, on the daemon's machine, over TLS."""
    for name, file in {"ca.pem": "ca.pem", "cert.pem": "client.pem", "key.pem": "client.pem"}.items():
        shutil.copy(CERTIFICATES / file, tmp_path / name)
    own = {
        "ENGINE_HOST": f"tcp://localhost:{PORT}",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": str(tmp_path),
    }

    def run(*words, program=COMMAND, more=(), **named):
        command = tls_daemon.namespaces.command([*program, *words])
        environment = {**tls_daemon.environment, **own, **dict(more)}
        environment["DOCKER_HOST"] = environment["ENGINE_HOST"]
        return subprocess.run(command, env=environment, capture_output=True, timeout=60, **named)

    return run


def test_a_daemon_is_reached_by_tls(by_tls):
    assert said(by_tls("version", "-f", "{{.Server.Version}}"))
    result = by_tls("run", "--rm", "busybox", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr) == (7, b"out\n", b"err\n")


def test_the_end_of_the_input_goes_through_tls(by_tls):
    """A half-close by TLS's own means; and much of everything."""
    result = by_tls("run", "-i", "--rm", "busybox", "cat", input=DATA)
    assert (result.returncode, result.stdout == DATA) == (0, True)
    name = f"own-{uuid.uuid4().hex[:12]}"
    said(by_tls("run", "-d", "--name", name, "busybox", "sleep", "600"))
    assert by_tls("exec", "-i", name, "cat", input=DATA).stdout == DATA
    said(by_tls("rm", "-f", name))


def test_tls_that_cannot_be_trusted_is_refused(by_tls, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("ca.pem", "cert.pem", "key.pem"):
        shutil.copy(CERTIFICATES / "client.pem", other / name)
    for more in (
        {"DOCKER_CERT_PATH": str(other)},  # its authority is not the daemon's
        {"DOCKER_CERT_PATH": str(tmp_path / "nope")},
    ):
        refused = by_tls("ps", more=more.items())
        assert refused.returncode == 1, more
        assert refused.stderr.startswith(b"engine: "), more
    plain = by_tls("ps", more={"DOCKER_TLS_VERIFY": "", "DOCKER_CERT_PATH": ""}.items())
    assert plain.returncode == 1
    assert plain.stderr == b"Error response from daemon: Client sent an HTTP request to an HTTPS server.\n"
    unverified = {"DOCKER_TLS_VERIFY": "", "DOCKER_TLS": "1", "DOCKER_CERT_PATH": str(other)}
    assert by_tls("ps", more=unverified.items()).returncode == 0


def test_options_in_front_of_the_verb_are_the_same(by_tls):
    plain = {"ENGINE_HOST": "unix:///nowhere", "DOCKER_TLS_VERIFY": ""}
    result = by_tls("-H", f"tcp://localhost:{PORT}", "--tlsverify", "ps", more=plain.items())
    assert said(result).startswith("CONTAINER ID")


@pytest.fixture
def other_host(engine, tmp_path):
    """What ssh reaches: a machine that has this engine under docker's name, and nothing else of docker.

    ssh here is a program of the test's: it notes its words, and runs the last one as the other host's shell would.
    """
    programs, there = tmp_path / "here", tmp_path / "there"
    programs.mkdir()
    there.mkdir()
    listening = engine.environment["ENGINE_HOST"]
    for name in ("docker", "engine"):
        door = there / name
        door.write_text(f'#!/bin/sh\nexec env ENGINE_HOST={listening} {" ".join(COMMAND)} "$@"\n')
        door.chmod(0o755)
    ssh = programs / "ssh"
    ssh.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n'
        'while [ "$1" != -- ]; do shift; done; shift 2\n'
        f'PATH={there}:$PATH exec sh -c "$*"\n'
    )
    ssh.chmod(0o755)
    environment = {**engine.environment, "PATH": f"{programs}:{os.environ['PATH']}"}
    environment |= {"ENGINE_HOST": "ssh://user@host:22", "DOCKER_HOST": "ssh://user@host:22"}

    def run(*words, **named):
        return subprocess.run(words, env=environment, capture_output=True, timeout=60, **named)

    run.there, run.asked = there, tmp_path / "asked"
    return run


@pytest.mark.parametrize("program", [("docker",), COMMAND], ids=["docker", "engine"])
def test_a_host_that_has_only_this_engine_is_reached_by_ssh(other_host, busybox, program):
    if shutil.which(program[0]) is None:
        pytest.skip("needs the docker CLI")
    assert said(other_host(*program, "version", "-f", "{{.Server.Version}}"))
    result = other_host(*program, "run", "-i", "--rm", "busybox", "sh", "-c", "cat; exit 7", input=DATA)
    assert (result.returncode, result.stdout == DATA) == (7, True)
    assert b"-l user -p 22" in other_host.asked.read_bytes()


def test_what_ssh_says_is_shown(other_host):
    for name in ("docker", "engine"):
        (other_host.there / name).write_text("#!/bin/sh\necho refused >&2; exit 255\n")
    failed = other_host(*COMMAND, "ps")
    assert (failed.returncode, failed.stdout) == (1, b"")
    assert b"refused\n" in failed.stderr and b"closed the connection" in failed.stderr


def test_dial_stdio_ends_with_the_daemons_side(engine):
    request = b"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    result = engine("system", "dial-stdio", input=request)
    assert result.returncode == 0
    assert result.stdout.startswith(b"HTTP/1.1 200 OK") and result.stdout.endswith(b"OK")


def completed(engine, line, tmp_path):
    """What bash offers for a line, with the script of `engine completion bash`."""
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(said(engine("completion", "bash")))
    ask = (
        "complete() { :; }; compopt() { :; }; source ./script; COMP_LINE=$1; COMP_POINT=${#1}; "
        # As readline cuts a line into words: at blanks, and around `:` and `=`.
        'read -ra COMP_WORDS <<<"$(sed "s/[:=]/ & /g" <<<"$1")"; [[ $1 == *" " ]] && COMP_WORDS+=(""); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _engine; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**engine.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", "--norc", "-c", ask, "bash", line]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, cwd=tmp_path)
    return set(said(done).split())


def test_bash_completes_verbs_options_and_names(engine, tmp_path):
    name = f"own-{uuid.uuid4().hex[:12]}"
    said(engine("create", "--name", name, "busybox"))
    said(engine("tag", "busybox", f"{name}:tag"))
    try:
        for line, offered in (
            ("engine pu", {"pull", "push"}),
            ("engine network inspect brid", {"bridge"}),
            ("engine volume ins", {"inspect"}),
            ("engine rm --fo", {"--force"}),
            (f"engine rm {name[:10]}", {name}),
            (f"engine run {name}:t", {"tag"}),
            ("engine run --rm -it --network=brid", {"bridge"}),
            ("engine run --network brid", {"bridge"}),
            (f"engine -H {engine.environment['ENGINE_HOST']} start {name[:10]}", {name}),
            (f"engine stop {name[:10]}", set()),  # it does not run
            (f"engine cp {name[:10]}", {f"{name}:"}),
            ("engine run busybox l", set()),
            ("engine save -o scr", {"script"}),
            ("engine completion f", {"fish"}),
        ):
            assert completed(engine, line, tmp_path) == offered, line
    finally:
        said(engine("rm", name))
        said(engine("rmi", f"{name}:tag"))


def test_a_daemon_that_is_away_gives_no_names_and_no_words(engine):
    answer = engine("-H", "unix:///nowhere", "__complete", "--", "-H", "unix:///nowhere", "rm", "")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(engine, shell):
    assert "engine" in said(engine("completion", shell))
    assert engine("completion", "nosuchshell").returncode == 1


@pytest.mark.alone
def test_a_list_costs_little_processor_time(engine):
    """The least of some runs, in turn with Python alone: other work on the machine makes each of them longer."""

    def spent(run):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def start():
        subprocess.run([sys.executable, "-c", "pass"], check=True)

    turns = [(spent(lambda: said(engine("ps"))), spent(start)) for _ in range(15)]
    listed, started = map(min, zip(*turns, strict=True))
    assert listed < STARTS * started


def test_a_list_loads_nothing_of_the_daemon_and_little_else(engine):
    script = "import sys; from engine.__main__ import main; main(['ps']); print(*sys.modules)"
    loaded = said(subprocess.run([sys.executable, "-S", "-c", script], env=engine.environment, capture_output=True))
    modules = set(loaded.splitlines()[-1].split())
    assert not {name for name in modules if name.startswith(("engine.daemon", "engine.settings", "_muxer"))}
    assert not {"ssl", "subprocess", "tarfile", "urllib", "datetime", "typing", "http", "termios"} & modules
