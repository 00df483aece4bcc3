"""Targets of `docker buildx bake` that stand on each other, and files that another frontend reads."""

from collections.abc import Iterator

import pytest

from tests.__main__ import CACHE
from tests.clients.building import Building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.harness.contexts import Member, build
from tests.harness.daemon import Daemon
from tests.setup.buildctl import PROGRAMS, VERSION

BAKE = """
group "default" { targets = ["upper", "more"] }
target "lower" {
  dockerfile-inline = "FROM busybox\\nENV WORD=below\\nRUN LOWER\\nUSER 7\\nWORKDIR /w"
}
target "upper" {
  contexts = { base = "target:lower" }
  dockerfile-inline = "FROM base\\nRUN echo $WORD $(id -u) $(pwd) > /tmp/up"
  tags = ["TAG"]
}
target "more" {
  contexts = { lower = "target:lower", upper = "target:upper" }
  dockerfile-inline = "FROM busybox\\nCOPY --from=lower /lower /a/\\nRUN --mount=from=upper,target=/u cp /u/tmp/up /b"
  tags = ["TAG-more"]
}
"""


def write(buildx: Building, tag: str, command: str) -> None:
    """The file of the targets. command: of the lowest one, which is nobody else's"""
    text = BAKE.replace("TAG", tag).replace("LOWER", f"{command}; echo {tag}")
    (buildx.place / "docker-bake.hcl").write_text(text)


def test_targets_that_stand_on_each_other(buildx: Building, docker: Client, tag: str) -> None:
    """What one target has made is a base, the source of a copy and of a mount in others; its own config comes along."""
    write(buildx, tag, "mkdir -p /tmp; chmod 1777 /tmp; echo hello > /lower")
    output = told(buildx("buildx", "bake"))
    assert f"naming to docker.io/library/{tag}:latest" in output
    assert said(docker("run", "--rm", tag, "cat", "/tmp/up", "/lower")) == "below 7 /w\nhello\n"
    assert said(docker("run", "--rm", f"{tag}-more", "cat", "/a/lower", "/b")) == "hello\nbelow 7 /w\n"
    assert told(buildx("buildx", "bake")).count(" CACHED") >= 4
    docker("rmi", "-f", f"{tag}-more")


def test_a_target_that_fails_ends_those_that_stand_on_it(buildx: Building, tag: str) -> None:
    write(buildx, tag, "exit 9")
    assert "exit code: 9" in told(buildx("buildx", "bake"), 1)


@pytest.fixture
def frontend(daemon: Daemon, docker: Client) -> Iterator[str]:
    """The name of an image that is a frontend."""
    if not PROGRAMS.complete(CACHE):
        pytest.skip(f"needs buildctl {VERSION}: {PROGRAMS.unable() or '`python3 -m tests` could not build it'}")
    program = PROGRAMS.place(CACHE, "graphs").read_bytes()
    caps = "LABEL moby.buildkit.frontend.caps=moby.buildkit.frontend.inputs,moby.buildkit.frontend.subrequests"
    lines = ("FROM scratch", "COPY graphs /frontend", 'ENTRYPOINT ["/frontend"]', caps)
    assert build(daemon, "\n".join(lines), Member("graphs", program, 0o755), t="other/frontend:1").id
    yield "other/frontend:1"
    docker("rmi", "-f", "other/frontend:1")


def test_a_file_that_another_frontend_reads(buildx: Building, docker: Client, frontend: str, tag: str) -> None:
    """By its first line, and by a build argument; the frontend gets the options, and the whole line."""
    (buildx.place / "File").write_text(f"# syntax={frontend} with words\nno instruction of docker's\n")
    words = ("-f", "File", "--build-arg", "IMAGE=docker.io/library/busybox:latest", "-t", tag, ".")
    told(buildx("build", *words))
    assert said(docker("run", "--rm", tag, "tail", "-1", "/made/link")) == "no instruction of docker's\n"
    (buildx.place / "File").write_text("nothing is said here\n")
    told(buildx("build", "--build-arg", f"BUILDKIT_SYNTAX={frontend}", *words))
    assert said(docker("run", "--rm", tag, "cat", "/made/link")) == "nothing is said here\n"


def test_a_frontend_that_there_is_not(buildx: Building) -> None:
    (buildx.place / "Dockerfile").write_text("# syntax=nowhere.example/none\nFROM busybox\n")
    assert "nowhere.example" in told(buildx("build", "."), 1)
