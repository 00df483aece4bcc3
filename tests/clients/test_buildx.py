"""`docker build` as people type it: the real CLI with the real buildx, and nothing set but the daemon's address."""

import json
import os
import re
import signal
import subprocess
import tarfile
import time
import uuid
from pathlib import Path

import pytest

from tests.clients.building import LONG, Building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.harness import agents
from tests.harness.daemon import Daemon


def test_an_image_is_built_named_and_run(buildx: Building, docker: Client, tag: str) -> None:
    buildx.write("COPY a /a", "RUN cat /a; echo words >&2", "ENV x=y", 'CMD ["cat", "/a"]')
    (buildx.place / "a").write_text("hello\n")
    output = told(buildx("build", "-t", tag, "."))
    assert 'building with "default" instance using docker driver' in output
    base = r"[1/3] FROM docker.io/library/busybox:latest@sha256:"
    assert re.search(rf"^#\d+ {re.escape(base)}[0-9a-f]{{64}}$", output, re.MULTILINE), output
    for line in ("[internal] load build definition from Dockerfile", "[2/3] COPY a /a"):
        assert re.search(rf"^#\d+ {re.escape(line)}$", output, re.MULTILINE), output
    assert re.search(r"^#\d+ \d+\.\d+ hello$", output, re.MULTILINE)
    assert re.search(r"^#\d+ \d+\.\d+ words$", output, re.MULTILINE)
    assert f"naming to docker.io/library/{tag}:latest" in output
    assert said(docker("run", "--rm", tag)) == "hello\n"


def test_what_did_not_change_is_cached_and_does_not_travel(buildx: Building, tag: str) -> None:
    buildx.write("COPY . /c", "RUN echo ran")
    for number in range(20):
        (buildx.place / str(number)).write_bytes(bytes(50_000))
    first = told(buildx("build", "-t", tag, "."))
    second = told(buildx("build", "-t", tag, "."))
    assert second.count(" CACHED") == 3
    (buildx.place / "7").write_text("another")
    third = told(buildx("build", "-t", tag, "."))
    assert third.count(" CACHED") == 1  # its base

    def transferred(output: str) -> list[str]:
        return re.findall(r"transferring context: ([\d.]+\w?B)", output)

    assert transferred(first)[-1].endswith("MB")
    assert transferred(second) == []
    assert transferred(third)[-1] == "7B"


def test_tags_and_files_that_tell_of_the_result(buildx: Building, docker: Client, tag: str, tmp_path: Path) -> None:
    buildx.write("RUN echo ran")
    files = "--iidfile", str(tmp_path / "id"), "--metadata-file", str(tmp_path / "metadata")
    told(buildx("build", "-t", tag, "-t", f"{tag}:b", *files, "."))
    id = said(docker("inspect", "-f", "{{.Id}}", f"{tag}:b")).strip()
    assert (tmp_path / "id").read_text() == id
    assert f'"containerimage.digest": "{id}"' in (tmp_path / "metadata").read_text()
    again = buildx("build", "-q", ".").stdout.strip()
    same = "{{.RootFS}}", "{{json .Config}}", "{{.Created}}"
    assert [said(docker("inspect", "-f", each, again)) for each in same] == [
        said(docker("inspect", "-f", each, id)) for each in same
    ], "its provenance alone is another"
    docker("rmi", "-f", f"{tag}:b")


def test_a_command_that_fails_is_told_with_its_line(buildx: Building) -> None:
    buildx.write("RUN echo why >&2; exit 3", "RUN echo never")
    output = told(buildx("build", "."), 1)
    assert 'process "/bin/sh -c echo why >&2; exit 3" did not complete successfully: exit code: 3' in output
    assert re.search(r"^   3 \| >>> RUN echo why >&2; exit 3$", output, re.MULTILINE), output
    assert "never" not in re.sub(r"RUN echo never", "", output)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["RUNN x"], "unknown instruction: RUNN"),
        (["COPY absent /"], "absent"),
        (["FROM nothing-of-that-name.example/x"], "nothing-of-that-name.example"),
    ],
    ids=["syntax", "source", "base"],
)
def test_other_failures_are_told_in_words(buildx: Building, lines: list[str], words: str) -> None:
    buildx.write(*lines)
    assert words in told(buildx("build", "."), 1)


def test_no_dockerfile(buildx: Building) -> None:
    """As all failures of a build it has no code of gRPC's, which a client would show before the words."""
    words = "failed to solve: failed to read dockerfile: open Dockerfile: no such file or directory"
    assert words in told(buildx("build", "."), 1)


def test_the_host_of_a_command_has_buildkits_name(buildx: Building) -> None:
    """Not one that differs from build to build, which would be in what the command makes."""
    buildx.write("RUN echo on $(hostname)")
    assert re.search(r" on buildkitsandbox$", told(buildx("build", ".")), re.MULTILINE)


def test_an_archives_members_get_the_owner_that_add_names(buildx: Building) -> None:
    """As with BuildKit; with the classic builder they keep their own. So they do here where ADD names none."""
    with tarfile.open(buildx.place / "a.tar", "w") as archive:
        member = tarfile.TarInfo("d/f")
        member.uid, member.gid = 33, 44
        archive.addfile(member)
    buildx.write("ADD --chown=7:8 a.tar /x/", "ADD a.tar /y/", "RUN stat -c '%n %u:%g' /x /x/d/f /y /y/d/f")
    found = re.findall(r"^#\d+ \d+\.\d+ (/.*)$", told(buildx("build", ".")), re.MULTILINE)
    assert found == ["/x 7:8", "/x/d/f 7:8", "/y 0:0", "/y/d/f 33:44"]


def test_what_the_daemon_does_not_grant_is_refused_in_words(buildx: Building) -> None:
    buildx.write("RUN true")
    words = "failed to solve: granting entitlement security.insecure is not allowed by build daemon configuration"
    assert words in told(buildx("build", "--allow", "security.insecure", "."), 1)


def test_options_reach_the_steps(buildx: Building, docker: Client, tag: str) -> None:
    buildx.write(
        *("ARG word", "ARG TARGETPLATFORM", "RUN echo word $word $TARGETPLATFORM", "RUN cat /etc/hosts"),
        *("RUN ulimit -n", "RUN df -k /dev/shm | tail -1", "RUN ip addr || true", "FROM scratch AS never", "RUN never"),
        name="Other",
    )
    lines = (buildx.place / "Other").read_text().replace("FROM busybox", "FROM busybox AS one", 1)
    (buildx.place / "Other").write_text(lines)
    options = (
        *("--build-arg", "word=hello", "--label", "kind=made", "--add-host", "far.example:10.1.2.3"),
        *("--ulimit", "nofile=77:99", "--shm-size", "2m", "--network", "none", "--target", "one", "--no-cache"),
    )
    output = told(buildx("build", *options, "-f", "Other", "-t", tag, "."))
    for words in ("word hello linux/", "10.1.2.3\tfar.example", " 77\n", " 2048 "):
        assert words in output, output
    assert "never" not in output
    assert "eth0" not in output
    assert said(docker("inspect", "-f", '{{index .Config.Labels "kind"}}', tag)).strip() == "made"


def test_the_hosts_gateway_has_a_name(buildx: Building, daemon: Daemon) -> None:
    """The client asks ListWorkers for the address."""
    gateway = daemon.request("GET", "/networks/bridge").json()["IPAM"]["Config"][0]["Gateway"]
    buildx.write("RUN cat /etc/hosts")
    assert f"{gateway}\tup" in told(buildx("build", "--add-host", "up:host-gateway", "."))


def test_dockerignore(buildx: Building) -> None:
    buildx.write("COPY . /c", "RUN find /c -type f | sort | tr '\\n' ' '")
    for name in ("a.o", "b.c", "keep.o"):
        (buildx.place / name).write_text(name)
    (buildx.place / ".dockerignore").write_text("*.o\n!keep.o\n.dockerignore\nDockerfile*\n")
    assert " /c/b.c /c/keep.o" in told(buildx("build", "."))
    (buildx.place / "Dockerfile.dockerignore").write_text("*.c\n.dockerignore\nDockerfile*\n")
    assert " /c/a.o /c/keep.o" in told(buildx("build", "."))


def test_a_secret_is_there_for_its_step_alone(buildx: Building, docker: Client, tag: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the word")
    buildx.write(
        "RUN --mount=type=secret,id=s cat /run/secrets/s; ls -ln /run/secrets",
        "RUN --mount=type=secret,id=s,target=/x/y,mode=0444,uid=7 cat /x/y; ls -ln /x/y",
        "RUN --mount=type=secret,id=absent test ! -e /run/secrets/absent",
        "RUN test ! -e /run/secrets && test ! -e /x && echo gone",
    )
    output = told(buildx("build", "-t", tag, "--secret", f"id=s,src={tmp_path}/secret", "."))
    assert output.count("the word") == 2
    assert "-r--------    1 0        0 " in output
    assert "-r--r--r--    1 7        0 " in output
    assert " gone" in output
    assert "the word" not in said(docker("history", "--no-trunc", tag))
    assert os.listdir(buildx.daemon.exec_root / "given") == []
    buildx.write("RUN --mount=type=secret,id=absent,required=true true")
    assert "secret absent: not found" in told(buildx("build", "."), 1)


def test_an_agent_is_forwarded(buildx: Building, asker: bytes, tmp_path: Path) -> None:
    """What a step asks reaches the client's agent of that name, and the answer comes back into the step."""
    word = uuid.uuid4().bytes.hex().encode()
    (buildx.place / "ask").write_bytes(asker)
    (buildx.place / "request").write_bytes(agents.sign_request(word))
    buildx.write(
        "COPY --chmod=755 ask request /",
        "RUN --mount=type=ssh ls -ln $SSH_AUTH_SOCK; /ask < /request | tail -c 46",
        "RUN --mount=type=ssh,id=other,target=/agent,uid=7,mode=0666 ls -ln /agent; /ask < /request | tail -c 46",
        "RUN --mount=type=ssh,id=absent,target=/absent test ! -e /absent && echo absent",
        "RUN test ! -e /agent && test ! -e /run/buildkit && echo gone",
    )
    with agents.serving("default", tmp_path / "a"), agents.serving("other's", tmp_path / "b"):
        options = ("--ssh", f"default={tmp_path}/a", "--ssh", f"other={tmp_path}/b")
        output = told(buildx("build", *options, "."))
    assert re.search(r"srw-------    1 0        0 .* /run/buildkit/ssh_agent.0", output), output
    assert re.search(r"srw-rw-rw-    1 7        0 .* /agent", output), output
    for name in ("default", "other's"):
        assert agents.signature(name, word).decode() in output, output
    assert " absent" in output and " gone" in output
    assert os.listdir(buildx.daemon.exec_root / "given") == []
    buildx.write("RUN --mount=type=ssh,required=true true")
    assert "unset ssh forward key default" in told(buildx("build", "."), 1)


def test_a_dockerfile_and_a_context_from_standard_input(buildx: Building, tag: str) -> None:
    buildx.write("COPY . /c", "RUN cat /c/a")
    (buildx.place / "a").write_text("from the archive\n")
    archive = subprocess.run(["tar", "-c", "."], cwd=buildx.place, capture_output=True, check=True).stdout
    assert "from the archive" in told(buildx("build", "-", input=archive))
    buildx.write("COPY . /c", "RUN cat /c/a")
    assert "from the archive" in told(buildx("build", "-f", "-", ".", input=(buildx.place / "Dockerfile").read_bytes()))
    alone = f"FROM busybox\nRUN echo alone {tag}\n".encode()
    assert f"alone {tag}" in told(buildx("build", "-t", tag, "-", input=alone))


def test_in_a_repository(buildx: Building) -> None:
    """Where buildx tells of the repository, too."""
    for words in (["init", "-q"], ["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "m", "--allow-empty"]):
        subprocess.run(["git", *words], cwd=buildx.place, check=True)
    buildx.write("COPY a /a", "RUN cat /a")
    (buildx.place / "a").write_text("from a repository\n")
    assert " from a repository" in told(buildx("build", "."))


def test_bake(buildx: Building, docker: Client, tag: str) -> None:
    """Several targets with one context, each with a session of its own inside the connection."""
    buildx.write("ARG x", "COPY a /a", "RUN echo target $x")
    (buildx.place / "a").write_text("a")
    targets = {name: {"args": {"x": name}, "tags": [f"{tag}:{name}"]} for name in "ab"}
    bake = {"group": {"default": {"targets": ["a", "b"]}}, "target": targets}
    (buildx.place / "docker-bake.json").write_text(json.dumps(bake))
    output = told(buildx("buildx", "bake"))
    assert "target a\n" in output and "target b\n" in output
    for name in "ab":
        said(docker("rmi", "-f", f"{tag}:{name}"))


def test_interrupted(buildx: Building, docker: Client) -> None:
    buildx.write("RUN echo begun; sleep 1000")
    with buildx.begun("build", ".") as client:
        for line in client.stdout:
            if line.rstrip().endswith(" begun"):
                break
        client.send_signal(signal.SIGINT)
        assert client.wait(LONG) != 0
    end = time.monotonic() + LONG
    while (
        said(docker("ps", "-aq", "--filter", "label=nobody")) or buildx.daemon.request("GET", "/containers/json").json()
    ):
        assert time.monotonic() < end, "the container of the step is still there"
        time.sleep(0.05)


def test_builds_side_by_side(buildx: Building, docker: Client) -> None:
    """Of the same context: the later ones wait for its files, and all end well."""
    buildx.write("COPY . /c", "RUN sleep 0.2")
    (buildx.place / "large").write_bytes(os.urandom(3_000_000))
    clients = [buildx.begun("build", "--no-cache", ".") for _ in range(4)]
    for client in clients:
        output, _ = client.communicate(timeout=LONG)
        assert client.returncode == 0, output


def test_nothing_is_left_of_a_build(buildx: Building) -> None:
    """No session and no container; the mirrors of contexts stay, and their directory is shut."""
    buildx.write("COPY Dockerfile /")
    told(buildx("build", "."))
    contexts = buildx.daemon.data_root / "contexts"
    assert os.stat(contexts).st_mode & 0o777 == 0o700
    assert 2 <= len(os.listdir(contexts)) <= 32
    assert os.listdir(buildx.daemon.data_root / "tmp") == []
