"""The engine's own client: each verb about containers, and that it answers as the docker CLI does."""

import json
import subprocess
import sys
import time
import uuid

import pytest

from tests.clients.cli import ageless, said

COMMAND = (sys.executable, "-m", "engine")


@pytest.fixture
def named(engine):
    """A container's name that is gone after the test."""
    name = f"own-{uuid.uuid4().hex[:12]}"
    yield name
    engine("rm", "-fv", name)


@pytest.fixture
def sleeping(engine, named):
    """A container that sleeps, with what the lists show of it."""
    said(engine("run", "-d", "--name", named, "-l", "kind=own", "-p", "127.0.0.1::80", "busybox", "sleep", "600"))
    return named


def same(engine, docker, *words):
    """What both say, which is the same."""
    ours, theirs = engine(*words), docker(*words)
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr)
    assert ageless(ours.stdout) == ageless(theirs.stdout)
    return said(ours)


def test_lists_are_dockers(engine, docker, sleeping):
    only = ("-f", f"name={sleeping}")
    shown = same(engine, docker, "ps", "--no-trunc", *only)
    assert sleeping in shown
    for words in (
        ["ps", "-aq", *only],
        ["ps", "-s", *only],
        ["container", "ls", *only],
        ["ps", "--format", '{{.Names}} {{.Label "kind"}} {{.State}} {{.Networks}} {{.Mounts}}', *only],
        ["ps", "--format", r"table {{.Names}}\t{{.Image}}\t{{.Command}}", *only],
        ["ps", "--format", '{{printf "%-30s|%3s" .Names .Image}} {{.Platform}}', *only],
        ["ps", "--format", r"table {{.Names}}\t{{.Platform}}", *only],
        ["top", sleeping],
        ["port", sleeping],
        ["port", sleeping, "80"],
        ["inspect", "-f", "{{.Name}} {{.State.Running}} {{.HostConfig.Memory}}", sleeping],
        ["inspect", "-f", "{{range $k, $v := .NetworkSettings.Networks}}{{$k}} {{$v.IPAddress}}{{end}}", sleeping],
        ["inspect", "-f", '{{(index (index .NetworkSettings.Ports "80/tcp") 0).HostPort}}', sleeping],
    ):
        same(engine, docker, *words)


@pytest.mark.parametrize("form", ["json", "{{json .}}"])
def test_json_is_a_document_a_line(engine, docker, sleeping, form):
    """Byte for byte, but for how long ago it was."""
    words = ("ps", "-s", "--format", form, "-f", f"name={sleeping}")
    ours, theirs = (said(client(*words)) for client in (engine, docker))
    moving = {name: json.loads(ours)[name] for name in ("RunningFor", "Status")}
    for name, value in moving.items():
        theirs = theirs.replace(json.dumps(json.loads(theirs)[name]), json.dumps(value))
    assert ours == theirs
    for words in (("network", "ls"), ("images",)):
        ours, theirs = (
            json.loads(said(client(*words, "--format", form)).splitlines()[0]) for client in (engine, docker)
        )
        assert ours.keys() == theirs.keys(), words


def test_every_verb_that_lists_or_shows_takes_json(engine, sleeping):
    for words in (
        ["ps", "-a"],
        ["images"],
        ["network", "ls"],
        ["volume", "ls"],
        ["system", "df"],
        ["info"],
        ["version"],
        ["inspect", sleeping],
        ["stats", "--no-stream", sleeping],
        ["network", "inspect", "bridge"],
        ["events", "--since", "1h", "--until", "0s"],
    ):
        for line in said(engine(*words, "--format", "json")).splitlines():
            json.loads(line)


def test_a_container_is_stopped_started_paused_and_killed(engine, sleeping):
    def state():
        return said(engine("inspect", "-f", "{{.State.Status}}", sleeping)).strip()

    for words, after in (
        (["stop", "-t", "0"], "exited"),
        (["start"], "running"),
        (["pause"], "paused"),
        (["unpause"], "running"),
        (["restart", "-t", "0"], "running"),
        (["kill", "-s", "KILL"], "exited"),
    ):
        assert said(engine(*words, sleeping)) == f"{sleeping}\n"
        if after == "exited":
            assert said(engine("wait", sleeping)) == "137\n"
        assert state() == after, words
    refused = engine("kill", sleeping, "own-nobody")
    assert refused.returncode == 1
    assert refused.stderr.count(b"Error response from daemon: ") == 2


def test_a_container_is_renamed_and_an_absent_one_is_no_failure_by_force(engine, sleeping):
    other = f"{sleeping}-other"
    said(engine("rename", sleeping, other))
    assert said(engine("rm", "-f", other, "own-nobody")) == f"{other}\n"
    assert engine("rm", "own-nobody").returncode == 1


def test_a_created_container_starts_and_stays_attached(engine, named):
    said(engine("create", "--name", named, "-i", "busybox", "sh", "-c", "cat; exit 4"))
    result = engine("start", "-ai", named, input=b"whole")
    assert (result.returncode, result.stdout) == (4, b"whole")


def test_exec_passes_all_on(engine, docker, sleeping):
    result = engine("exec", "-i", "-e", "A=b", "-w", "/tmp", sleeping, "sh", "-c", "echo $A; pwd; cat", input=b"in")
    assert (result.returncode, result.stdout) == (0, b"b\n/tmp\nin")
    result = engine("exec", sleeping, "sh", "-c", "echo out; echo err >&2; exit 9")
    assert (result.returncode, result.stdout, result.stderr) == (9, b"out\n", b"err\n")
    for words in (["exec", sleeping, "nosuchcmd"], ["exec", sleeping, "/etc/passwd"], ["exec", "own-nobody", "true"]):
        assert engine(*words).returncode == docker(*words).returncode
    assert said(engine("exec", "-d", sleeping, "touch", "/done")) == ""


def test_logs_since_and_tail(engine, docker, named):
    script = "for i in 1 2 3; do echo $i; sleep 0.1; done; echo err >&2"
    said(engine("run", "--name", named, "busybox", "sh", "-c", script))
    second = said(engine("logs", "-t", named)).splitlines()[1].split()[0]
    assert said(engine("logs", "--since", second, named)) == "2\n3\n"
    assert said(engine("logs", "--until", second, named)) == "1\n2\n"
    assert said(engine("logs", "--tail", "2", "--since", "1h", named)) == "3\n"  # and the line on stderr
    for words in (
        ["-n", "2"],
        ["-t"],
        ["--since", second],
        ["--until", second],
        ["--since", "1h"],
        ["--until", "1h"],
        ["-f"],
    ):
        ours, theirs = engine("logs", *words, named), docker("logs", *words, named)
        assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)
    wrong = engine("logs", "--since", "soon", named)
    assert (wrong.returncode, wrong.stderr) == (
        1,
        b'engine: invalid value for "since": failed to parse value as time or duration: "soon"\n',
    )


def test_logs_are_followed_to_the_end(engine, named):
    script = "echo first; while [ ! -e /go ]; do sleep 0.05; done; echo second"
    said(engine("run", "-d", "--name", named, "busybox", "sh", "-c", script))
    follow = [*COMMAND, "logs", "-f", named]
    with subprocess.Popen(follow, env=engine.environment, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout.readline() == "first\n"
            assert following.poll() is None
            said(engine("exec", named, "touch", "/go"))
            assert following.stdout.readline() == "second\n"
            assert following.wait(30) == 0
        finally:
            following.kill()


def test_a_file_of_variables_is_given_to_the_command(engine, docker, tmp_path):
    """One without a value has that of the client's own; the command line comes after the file."""
    (tmp_path / "file").write_text("# a comment\nONE=of the file\nPATH\nTWO=x\n")
    words = ("run", "--rm", "-e", "TWO=y", "--env-file", str(tmp_path / "file"), "busybox", "/bin/busybox", "env")
    shown = set(said(engine(*words)).splitlines())
    assert {"ONE=of the file", "TWO=y", f"PATH={engine.environment['PATH']}"} <= shown
    kept = {line for line in said(docker(*words)).splitlines() if not line.startswith("HOSTNAME=")}
    assert {line for line in shown if not line.startswith("HOSTNAME=")} == kept


def test_files_are_copied_both_ways(engine, sleeping, tmp_path):
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("hello")
    (tmp_path / "d" / "l").symlink_to("e/f")
    said(engine("cp", str(tmp_path / "d"), f"{sleeping}:/new"))
    said(engine("cp", str(tmp_path / "d") + "/.", f"{sleeping}:/tmp"))
    assert said(engine("exec", sleeping, "cat", "/new/l", "/tmp/e/f")) == "hellohello"
    said(engine("cp", f"{sleeping}:/new", str(tmp_path)))
    said(engine("cp", f"{sleeping}:/new/e/f", str(tmp_path / "file")))
    said(engine("cp", "-L", f"{sleeping}:/new/l", str(tmp_path / "followed")))
    assert (tmp_path / "new" / "e" / "f").read_text() == "hello"
    assert (tmp_path / "new" / "l").is_symlink()
    assert (tmp_path / "file").read_text() == (tmp_path / "followed").read_text() == "hello"
    archive = engine("cp", f"{sleeping}:/new", "-").stdout
    assert archive[:4] == b"new/"
    said(engine("exec", sleeping, "mkdir", "/again"))
    said(engine("cp", "-", f"{sleeping}:/again", input=archive))
    assert said(engine("exec", sleeping, "cat", "/again/new/e/f")) == "hello"


def test_copies_that_cannot_be_are_refused_as_by_docker(engine, docker, sleeping, tmp_path):
    (tmp_path / "f").touch()
    for words in (
        ["cp", f"{sleeping}:/nope", str(tmp_path)],
        ["cp", f"{sleeping}:/etc", str(tmp_path / "f")],
        ["cp", f"{sleeping}:/etc/passwd", str(tmp_path / "no" / "place")],
        ["cp", str(tmp_path / "f"), f"{sleeping}:/no/"],
        ["cp", str(tmp_path), f"{sleeping}:/etc/passwd"],
        ["cp", str(tmp_path / "nope"), f"{sleeping}:/tmp"],
        ["cp", "a", "b"],
        ["cp", f"{sleeping}:/a", f"{sleeping}:/b"],
        ["cp", "own-nobody:/etc", str(tmp_path)],
    ):
        assert (engine(*words).returncode, docker(*words).returncode) == (1, 1), words


def test_top_shows_the_processes(engine, sleeping):
    lines = said(engine("top", sleeping, "-o", "pid,args")).splitlines()
    assert lines[0].split() == ["PID", "COMMAND"]
    assert lines[1].endswith("sleep 600")


def test_stats_once_and_live(engine, docker, sleeping):
    words = ("--format", "{{.Name}} {{.PIDs}} {{.ID}}", sleeping)
    assert said(engine("stats", "--no-stream", *words)) == said(docker("stats", "--no-stream", *words))
    command = [*COMMAND, "stats", "--format", "{{.Name}} {{.MemPerc}}", sleeping]
    with subprocess.Popen(command, env=engine.environment, stdout=subprocess.PIPE, text=True) as live:
        try:
            lines = [live.stdout.readline().split() for _ in range(5)]
            assert engine("rm", "-f", sleeping).returncode == 0
            assert live.wait(30) == 0  # nobody is left to be watched
        finally:
            live.kill()
            live.stdout.read()
    assert any(line[0] == sleeping and line[1].endswith("%") for line in lines if len(line) == 2), lines


def test_events_are_shown_as_they_happen(engine, docker, sleeping):
    only = ("--filter", f"container={sleeping}", "--since", "1h", "--until", f"{time.time() + 1:.0f}")
    same(engine, docker, "events", *only)
    same(engine, docker, "events", "--format", "{{.Type}} {{.Action}} {{.Actor.Attributes.name}}", *only)
    watch = [*COMMAND, "events", "-f", f"container={sleeping}", "--format", "{{.Action}}"]
    with subprocess.Popen(watch, env=engine.environment, stdout=subprocess.PIPE, text=True) as watching:
        try:
            while watching.poll() is None and not _pauses(engine, sleeping, watching):
                continue
        finally:
            watching.kill()


def _pauses(engine, sleeping, watching):
    """Pause and unpause until the watcher, which may not have begun yet, has seen it."""
    said(engine("pause", sleeping))
    said(engine("unpause", sleeping))
    assert watching.stdout.readline() in ("pause\n", "unpause\n")
    return True


def test_options_of_run_are_dockers(engine, docker, named):
    """The same container by both clients."""
    words = [
        *("--restart", "on-failure:2", "--init", "--cpus", "0.5", "-m", "64m", "-p", "127.0.0.1:0:80", "-h", "host"),
        *("-v", "/data", "--mount", "type=tmpfs,target=/t,tmpfs-size=1m", "--tmpfs", "/u:size=2m", "--read-only"),
        *("-e", "A=b", "-l", "x=y", "-u", "1:2", "-w", "/tmp", "--cap-drop", "ALL", "--ulimit", "nofile=100:200"),
        *("--stop-signal", "USR1", "--stop-timeout", "3", "--add-host", "a:1.2.3.4", "--network", "bridge"),
        *("--health-cmd", "true", "--health-interval", "1m", "--log-opt", "max-size=1m", "--pids-limit", "50"),
        *("--mac-address", "92:d0:c6:0a:29:33", "--blkio-weight", "300", "--device-read-bps", "/dev/null:1m"),
        *("-a", "stdout", "--gpus", "device=0", "--isolation", "default", "--memory-swappiness", "10"),
        *("--entrypoint", "sleep", "busybox", "600"),
    ]
    found = []
    for client in (engine, docker):
        said(client("create", "--name", named, *words))
        (document,) = json.loads(said(engine("inspect", named)))
        said(engine("rm", "-fv", named))
        host = document["HostConfig"]
        host.pop("ConsoleSize", None)
        found.append((document["Config"], host))
    (config, host), (dockers_config, dockers_host) = found
    different = {key for key in host if host[key] != dockers_host.get(key) and (host[key] or dockers_host.get(key))}
    assert different == set()
    kept = {key for key in config if config[key] != dockers_config.get(key) and key != "Hostname"}
    assert {key for key in kept if config[key] or dockers_config.get(key)} == set()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--rm", "-a", "stdout", "busybox", "sh", "-c", "echo out; echo err >&2; exit 3"),
        ("run", "--rm", "-a", "STDERR", "busybox", "sh", "-c", "echo out; echo err >&2"),
        ("run", "--rm", "busybox", "no-such-program"),
        ("run", "--rm", "--pull", "never", "no-such-image"),
        ("run", "--rm", "--env-file", "/nope", "busybox"),
        ("run", "--rm", "--restart", "always", "busybox"),
        ("run", "--rm", "--restart", "on-failure:x", "busybox"),
        ("run", "--rm", "--gpus", "all", "busybox"),
        ("start", "nobody-1", "nobody-2"),
        ("port", "{}", "99"),
        ("rename", "{}", "{}"),
        ("stats", "--no-stream", "nobody"),
    ],
    ids=" ".join,
)
def test_what_fails_is_told_in_dockers_words(engine, docker, sleeping, words):
    words = [word.format(sleeping) for word in words]
    ours, theirs = engine(*words), docker(*words)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stderr == theirs.stderr.replace(b"docker", b"engine")
