"""What a Dockerfile and its options can say, with the real CLI: named contexts, git, platforms, variables, faults."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.building import Building, building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.gitserver import GitServer, serving


def write(buildx: Building, *lines: str, name: str = "Dockerfile") -> None:
    """The file, a line each."""
    path = buildx.place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another directory of the client, with a .dockerignore."""
    place = tmp_path / "other"
    place.mkdir()
    (place / "file").write_text("of the other\n")
    (place / "left").write_text("left out\n")
    (place / ".dockerignore").write_text("left\n")
    return place


@pytest.fixture(scope="module")
def server(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    """A git repository on the daemon's loopback."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    with serving(tmp_path_factory.mktemp("repositories"), daemon.namespaces.socket()) as served:
        repository = served.repository("a")
        repository.commit({"Dockerfile": "FROM busybox\nCOPY . /c\nRUN cat /c/file\n", "file": "of git\n"})
        repository.commit({"sub/Dockerfile": "FROM busybox\nRUN echo below\n"})
        yield served


def test_a_directory_is_a_context_by_name(buildx: Building, other: Path) -> None:
    write(
        buildx,
        "FROM busybox",
        "COPY --from=there . /c",
        "RUN ls -a /c && cat /c/file",
        "RUN --mount=from=there,target=/m cat /m/file",
    )
    output = told(buildx("buildx", "build", "--build-context", f"there={other}", "."))
    assert "[context there] load from client" in output
    assert output.count("of the other") == 2
    assert not re.search(r"^#\d+ \d\.\d+ left$", output, re.MULTILINE)


def test_an_image_and_a_stage_are_replaced_by_name(buildx: Building, other: Path, docker: Client) -> None:
    write(
        buildx,
        "FROM nothing-of-that-name.example/x:1 AS unused",
        "FROM nothing-of-that-name.example/y AS first",
        "RUN false",
        "FROM alias",
        "COPY --from=first file /file",
        "RUN cat /file; echo $PATH",
    )
    contexts = (f"alias={'docker-image://busybox'}", f"first={other}")
    words = [word for each in contexts for word in ("--build-context", each)]
    output = told(buildx("buildx", "build", *words, "."))
    assert "of the other" in output
    assert "nothing-of-that-name" not in re.sub(r"^.*transferring.*$", "", output)


def test_git_is_a_context_by_name_and_a_source_and_the_context(buildx: Building, server: GitServer) -> None:
    url = server.url("a")
    write(buildx, "FROM busybox", "COPY --from=there file /one", f"ADD {url} /two", "RUN cat /one /two/file; ls /two")
    output = told(buildx("buildx", "build", "--build-context", f"there={url}#main", "."))
    assert output.count("of git") == 2
    assert ".git" not in re.findall(r"^#\d+ \d+\.\d+ (\S+)$", output, re.MULTILINE)


def test_an_oci_layout_of_the_client_is_a_context_by_name(buildx: Building, tmp_path: Path) -> None:
    write(buildx, "FROM busybox", "ENV of=the-layout", "RUN echo kept > /kept")
    told(buildx("buildx", "build", "-o", f"type=oci,tar=false,dest={tmp_path}/layout", "."))
    write(buildx, "FROM there", "RUN echo $of; cat /kept", "RUN --mount=from=there,target=/m cat /m/kept")
    output = told(buildx("buildx", "build", "--build-context", f"there=oci-layout://{tmp_path}/layout", "."))
    assert "[context there] OCI load from client" in output
    assert re.search(r"^#\d+ \d+\.\d+ the-layout$", output, re.MULTILINE)
    assert len(re.findall(r"^#\d+ \d+\.\d+ kept$", output, re.MULTILINE)) == 2


def test_a_repository_is_the_context(buildx: Building, server: GitServer) -> None:
    output = told(buildx("build", server.url("a")))
    assert "[internal] load remote build context" in output
    assert re.search(r"^#\d+ \d+\.\d+ of git$", output, re.MULTILINE)
    assert re.search(r"^#\d+ \d+\.\d+ below$", told(buildx("build", f"{server.url('a')}#main:sub")), re.MULTILINE)
    assert "does not contain ref absent" in told(buildx("build", f"{server.url('a')}#absent"), 1)
    own = b"FROM busybox\nCOPY file /own\nRUN cat /own; echo own\n"
    output = told(buildx("build", "-f", "-", server.url("a"), input=own))
    assert re.search(r"^#\d+ \d+\.\d+ own$", output, re.MULTILINE)


def test_stages_can_be_built_anew(buildx: Building) -> None:
    write(buildx, "FROM busybox AS one", "RUN echo first", "FROM one AS two", "RUN echo second")
    told(buildx("buildx", "build", "."))
    output = told(buildx("buildx", "build", "--no-cache-filter", "two", "."))
    assert re.search(r"^#(\d+) \[one 2/2\] RUN echo first\n#\1 CACHED$", output, re.MULTILINE), output
    assert re.search(r"^#\d+ \d+\.\d+ second$", output, re.MULTILINE)


def test_arguments_that_mean_something_to_the_frontend(buildx: Building) -> None:
    write(
        buildx,
        "# syntax=docker/dockerfile:1.7-labs",
        "FROM --platform=$BUILDPLATFORM busybox AS last",
        "ARG TARGETSTAGE TARGETOS TARGETARCH",
        "RUN echo at $TARGETSTAGE $TARGETOS on $(hostname)",
        "RUN --mount=type=cache,id=shared-by-name,target=/k touch /k/$(ls /k | wc -l) && ls /k | wc -l",
    )
    output = told(buildx("buildx", "build", "--build-arg", "BUILDKIT_SANDBOX_HOSTNAME=named", "."))
    assert "at last linux on named" in output
    again = told(buildx("buildx", "build", "--no-cache", "--build-arg", "BUILDKIT_CACHE_MOUNT_NS=apart", "."))
    for each in (output, again):  # neither cache has what the other one got
        assert re.search(r"^#\d+ \d+\.\d+ 1$", each, re.MULTILINE), each


def test_another_frontend_is_refused_by_its_name(buildx: Building) -> None:
    write(buildx, "# syntax=someone/else:1", "FROM busybox")
    assert "someone/else:1" in told(buildx("build", "."), 1)


SUM = f"sha256:{'0' * 64}"
FAULTS = [
    (["FROM busybox", "RUNN x"], "unknown instruction: RUNN (did you mean RUN?)", 2),
    (["FROM busybox", "RUN <<E", "x"], "unterminated heredoc", 2),
    (["FROM busybox", f"ADD --checksum={SUM} f /g"], "checksum requires HTTP(S) or Git sources", 2),
    (["FROM busybox", f"ADD --checksum={SUM} f g /h/"], "checksum can't be specified for multiple sources", 2),
    (["FROM busybox", "COPY absent /"], '"/absent": not found', 2),
    (["FROM busybox", "ENV a=${b?needed}", "RUN x"], "b: needed", 2),
    (["FROM busybox", "RUN --mount=type=cash x"], 'unsupported mount type "cash" (did you mean cache?)', 2),
    (["FROM busybox", "RUN exit 7"], 'process "/bin/sh -c exit 7" did not complete successfully: exit code: 7', 2),
]


@pytest.mark.parametrize(("lines", "words", "line"), FAULTS, ids=[words for _, words, _ in FAULTS])
def test_a_fault_is_told_with_its_line(buildx: Building, lines: list[str], words: str, line: int) -> None:
    write(buildx, *lines)
    output = told(buildx("build", "."), 1)
    assert words in output.rstrip().splitlines()[-1] + output
    assert f"Dockerfile:{line}\n" in output
    assert re.search(rf"^ +{line} \| >>> {re.escape(lines[line - 1])}$", output, re.MULTILINE), output


def test_labels_of_a_heredoc_and_of_onbuild(buildx: Building, docker: Client) -> None:
    write(
        buildx,
        "FROM busybox AS base",
        "ONBUILD COPY <<E /by-trigger",
        "words of the trigger",
        "E",
        "ONBUILD RUN cat /by-trigger",
        "FROM base",
        'COPY <<-one <<"two" /files/',
        "\t$PATH-one",
        "one",
        "$PATH-two",
        "two",
        "RUN <<E",
        "cat /files/*",
        "E",
        "RUN <<E",
        "#!/bin/sh",
        "echo by a program",
        "E",
    )
    output = told(buildx("build", "-t", "heredocs", "."))
    assert "RUN <<E (cat /files/*)\n" in output and "RUN <<E (#!/bin/sh...)\n" in output, output
    assert "words of the trigger" in output
    assert "/bin-one" in output
    assert "$PATH-two" in output
    assert "by a program" in output
    assert said(docker("run", "--rm", "heredocs", "ls", "/files")).split() == ["one", "two"]
    docker("rmi", "-f", "heredocs")


def test_a_stage_inherits_the_arguments_of_the_one_below(buildx: Building) -> None:
    write(
        buildx,
        "FROM busybox AS one",
        "ARG kept=from-one",
        "FROM scratch AS one",
        "FROM busybox AS one",
        "ARG kept=from-the-last",
        "FROM one",
        "RUN echo kept: $kept",
    )
    assert "kept: from-the-last" in told(buildx("build", "."))


def test_a_build_gets_the_hosts_network_if_it_asks(buildx: Building) -> None:
    write(buildx, "FROM busybox", "RUN --network=host readlink /proc/self/ns/net")
    assert "network.host is not allowed" in told(buildx("build", "."), 1)
    inside = re.compile(r"^#\d+ \d+\.\d+ (net:\[\d+\])$", re.MULTILINE)
    found = inside.findall(told(buildx("buildx", "build", "--allow", "network.host", ".")))
    assert found == [os.readlink(f"/proc/{buildx.daemon.pid}/ns/net")]
    write(buildx, "FROM busybox", "RUN readlink /proc/self/ns/net")
    assert inside.findall(told(buildx("build", "--no-cache", "--network", "host", "."))) == found
    assert inside.findall(told(buildx("build", "--no-cache", "."))) != found


def test_a_build_gets_no_rights_that_the_daemon_does_not_grant(buildx: Building) -> None:
    write(buildx, "FROM busybox", "RUN --security=insecure true")
    assert "security.insecure is not allowed" in told(buildx("build", "."), 1)
    output = told(buildx("buildx", "build", "--allow", "security.insecure", "."), 1)
    assert "granting entitlement security.insecure is not allowed by build daemon configuration" in output


@pytest.fixture
def generous(world, docker: Client, tmp_path: Path) -> Iterator[Building]:
    """buildx with a daemon that grants all rights to builds that ask for them."""
    with running(world.daemon(["--builder-entitlement", "security-insecure"])) as daemon:
        daemon.import_busybox()
        yield building(daemon, tmp_path)


def test_a_build_gets_all_rights_if_it_asks_and_the_daemon_grants_them(generous: Building) -> None:
    """The step that says so has root's capabilities and no filter, and may mount; the others do not."""
    script = "grep -e CapEff -e Seccomp: /proc/self/status; mount -t tmpfs none /mnt && echo mounted"
    write(generous, "FROM busybox", f"RUN --security=insecure mkdir /mnt; {script}", f"RUN {script} || true")
    assert "security.insecure is not allowed" in told(generous("build", "."), 1)
    output = told(generous("buildx", "build", "--allow", "security.insecure", "."))
    said = dict(re.findall(r"^#(\d+) \d+\.\d+ CapEff:\t([0-9a-f]+)$", output, re.MULTILINE))
    assert len(said) == 2, output
    (insecure,) = re.findall(r"^#(\d+) \[2/3\]", output, re.MULTILINE)
    (usual,) = re.findall(r"^#(\d+) \[3/3\]", output, re.MULTILINE)
    (roots,) = re.findall(r"^CapEff:\t(.*)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    missing = {step: int(roots, 16) & ~int(had, 16) for step, had in said.items()}
    assert missing[insecure] == 0 != missing[usual], said
    assert re.search(rf"^#{insecure} \d+\.\d+ Seccomp:\t0$", output, re.MULTILINE), output
    assert re.search(rf"^#{usual} \d+\.\d+ Seccomp:\t2$", output, re.MULTILINE), output
    assert re.findall(r"^#(\d+) \d+\.\d+ mounted$", output, re.MULTILINE) == [insecure]


def test_what_has_been_made_with_all_rights_is_for_those_who_may_have_them(generous: Building) -> None:
    """Also where the cache has it, a build that does not ask for the rights is refused."""
    write(generous, "FROM busybox", "RUN --security=insecure true")
    told(generous("buildx", "build", "--allow", "security.insecure", "."))
    assert " CACHED" in told(generous("buildx", "build", "--allow", "security.insecure", "."))
    assert "security.insecure is not allowed" in told(generous("build", "."), 1)


def test_the_daemon_grants_what_it_names_and_nothing_else(generous: Building) -> None:
    write(generous, "FROM busybox", "RUN --network=host true")
    output = told(generous("buildx", "build", "--allow", "network.host", "."), 1)
    assert "granting entitlement network.host is not allowed by build daemon configuration" in output


def test_a_source_policy_denies_and_converts(buildx: Building, tmp_path: Path) -> None:
    def policy(*rules: dict) -> None:
        (tmp_path / "policy.json").write_text(json.dumps({"rules": rules}))

    buildx.environment["EXPERIMENTAL_BUILDKIT_SOURCE_POLICY"] = str(tmp_path / "policy.json")
    write(buildx, "FROM nothing-of-that-name.example/x:1", "RUN echo on busybox", "ADD https://denied.example/x /")
    image = "docker-image://nothing-of-that-name.example/x:1"
    convert = {
        "action": "CONVERT",
        "selector": {"identifier": image},
        "updates": {"identifier": "docker-image://docker.io/library/busybox:latest"},
    }
    deny = {"action": "DENY", "selector": {"identifier": "https://denied.example/*"}}
    policy(convert, deny)
    output = told(buildx("build", "."), 1)
    assert 'source "https://denied.example/x" denied by policy' in output
    assert re.search(r"^ +3 \| >>> ADD", output, re.MULTILINE)
    write(buildx, "FROM nothing-of-that-name.example/x:1", "RUN echo on busybox")
    assert "FROM docker.io/library/busybox" in told(buildx("build", "."))
    policy({"action": "DENY", "selector": {"identifier": "docker-image://*"}})
    assert f'source "{image}" denied by policy' in told(buildx("build", "."), 1)
    # The program of an image is run before it has said anything.
    write(buildx, "# syntax=busybox:latest", "FROM scratch")
    assert 'source "docker-image://docker.io/library/busybox:latest" denied by policy' in told(buildx("build", "."), 1)
    write(buildx, "FROM scratch", "COPY Dockerfile /")
    policy({"action": "DENY", "selector": {"identifier": "local://context"}})
    assert 'source "local://context" denied by policy' in told(buildx("build", "."), 1)
