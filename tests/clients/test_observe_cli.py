"""Looking at running containers with the docker CLI: stats, top, attach."""

import json
import re
import subprocess
import time
import uuid
from collections.abc import Iterator

import pytest


@pytest.fixture
def busy(docker) -> Iterator[str]:
    """The name of a container that works as fast as it can, in 64 megabytes."""
    name = f"busy-{uuid.uuid4().hex[:10]}"
    words = ("run", "-d", "--name", name, "--network", "none", "-m", "64m", "--pids-limit", "20")
    assert docker(*words, "busybox", "sh", "-c", "while :; do :; done").returncode == 0
    yield name
    docker("rm", "-f", name)


def said(result: subprocess.CompletedProcess) -> str:
    """Standard output of a client that ended as it should."""
    assert result.returncode == 0, result
    return result.stdout.decode()


def test_stats_once(docker, busy):
    """The figures are the container's: processor, memory and its limit, processes."""
    shown = json.loads(said(docker("stats", "--no-stream", "--format", "json", busy)))
    assert shown["Name"] == busy and shown["PIDs"] == "1"
    assert 3 < float(shown["CPUPerc"].rstrip("%")) < 130  # little of it on a busy machine
    used, limit = shown["MemUsage"].split(" / ")
    assert limit == "64MiB" and re.fullmatch(r"[0-9.]+(KiB|MiB)", used)
    assert 0 < float(shown["MemPerc"].rstrip("%")) < 50
    assert shown["NetIO"] == "0B / 0B"


def test_stats_of_all(docker, busy):
    """Without a name: every running container, and with --all the others too."""
    other = said(docker("create", "busybox")).strip()
    try:
        table = said(docker("stats", "--no-stream"))
        assert busy in table and other[:12] not in table
        everything = said(docker("stats", "--no-stream", "--all", "--format", "{{.ID}} {{.CPUPerc}}"))
        assert re.search(rf"{other[:12]} (0\.00%|--)", everything), everything
    finally:
        docker("rm", other)


def test_stats_as_a_stream(docker, busy):
    """Until the client has seen enough."""
    words = ["docker", "stats", "--format", "{{.Name}} {{.CPUPerc}}", busy]
    with subprocess.Popen(words, env=docker.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        try:
            seen, end = b"", time.monotonic() + 60
            while len(re.findall(rf"{busy} [1-9][0-9.]*%".encode(), seen)) < 2:
                assert time.monotonic() < end, seen
                seen += client.stdout.read1(4096)
        finally:
            client.kill()


def test_top(docker, busy):
    """With and without arguments of ps."""
    titles, row = said(docker("top", busy)).splitlines()
    assert titles.split() == ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"]
    assert row.split()[0] == "root" and row.endswith("sh -c while :; do :; done")
    titles, row = said(docker("top", busy, "-o", "pid,comm,pcpu")).splitlines()
    assert titles.split() == ["PID", "COMMAND", "%CPU"] and row.split()[1] == "sh"
    refused = docker("top", busy, "-o", "comm")
    assert refused.returncode == 1 and b"Couldn't find PID field in ps output" in refused.stderr
    assert docker("top", "nope").returncode == 1


def test_attach_without_a_terminal(docker, busy):
    """What it says from now on, and its exit status."""
    name = f"{busy}-said"
    script = "while read line; do echo got $line; test $line != end || exit 6; done"
    assert docker("run", "-di", "--name", name, "busybox", "sh", "-c", script).returncode == 0
    try:
        result = docker("attach", name, input=b"one\nend\n", timeout=60)
        assert (result.returncode, result.stdout) == (6, b"got one\ngot end\n")
        assert b"cannot attach to a stopped container" in docker("attach", name).stderr
    finally:
        docker("rm", "-f", name)


def test_attach_without_input(docker, busy):
    """--no-stdin: one that only listens, and goes without ending anything."""
    result = subprocess.run(
        ["timeout", "-s", "KILL", "2", "docker", "attach", "--no-stdin", "--sig-proxy=false", busy],
        env=docker.environment,
        capture_output=True,
        timeout=60,
    )
    assert result.returncode in (124, 137, -9), result
    assert said(docker("inspect", "-f", "{{.State.Running}}", busy)) == "true\n"
