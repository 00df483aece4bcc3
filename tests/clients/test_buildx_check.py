"""`docker build --check` and `--call`, and the warnings of an ordinary build, with the real CLI."""

import json
import re
from pathlib import Path

import pytest

from tests.clients.building import Building, building, told
from tests.clients.conftest import Client
from tests.harness.daemon import Daemon
from tests.harness.registry import Registry

CASING = "'as' and 'FROM' keywords' casing do not match"
PAGE = "https://docs.docker.com/go/dockerfile/rule/from-as-casing/"


@pytest.fixture
def builder(daemon: Daemon, docker: Client, tmp_path: Path) -> Building:
    """In an empty directory, on a daemon that has busybox."""
    return building(daemon, tmp_path)


def write(builder: Building, *lines: str, name: str = "Dockerfile") -> None:
    """The file, a line each."""
    (builder.place / name).write_text("".join(f"{line}\n" for line in lines))


def test_a_check_finds_nothing(builder: Building) -> None:
    write(builder, "FROM busybox", "COPY a /", 'CMD ["a"]')
    done = builder("build", "--check", ".")
    assert (done.returncode, done.stdout.strip()) == (0, "Check complete, no warnings found."), done.stderr


def test_a_check_shows_each_warning_with_its_lines(builder: Building) -> None:
    write(builder, "FROM busybox as x", "COPY ignored $nobody /", "RUN exit 1")
    write(builder, "ignored", name=".dockerignore")
    done = builder("build", "--check", ".")
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "Check complete, 3 warnings have been found!" in done.stdout
    assert f"WARNING: FromAsCasing - {PAGE}\n{CASING}\nDockerfile:1\n" in done.stdout
    assert "   1 | >>> FROM busybox as x\n   2 |     COPY ignored $nobody /\n" in done.stdout
    assert 'Attempting to Copy file "ignored" that is excluded by .dockerignore' in done.stdout
    assert "Usage of undefined variable '$nobody'" in done.stdout
    assert "RUN" not in done.stderr, "nothing is built"


def test_a_check_knows_the_variables_of_the_base(builder: Building, docker: Client) -> None:
    write(builder, "FROM busybox", "COPY $PATH $PAHT /")
    done = builder("build", "--check", ".")
    assert "Usage of undefined variable '$PAHT' (did you mean $PATH?)" in done.stdout
    assert "1 warning has been found" in done.stdout


def test_a_check_as_json_has_the_fault_that_keeps_the_file_from_being_built(builder: Building) -> None:
    write(builder, "FROM busybox as x", "RUNN a")
    done = builder("build", "--call=check,format=json", ".")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert [one["ruleName"] for one in document["warnings"]] == ["FromAsCasing"]
    assert document["buildError"]["message"] == (
        "dockerfile parse error on line 2: unknown instruction: RUNN (did you mean RUN?)"
    )


def test_a_build_tells_its_warnings(builder: Building) -> None:
    write(builder, "FROM busybox as x", "MAINTAINER me")
    output = told(builder("build", "."))
    assert "2 warnings found (use docker --debug to expand):" in output
    assert f" - FromAsCasing: {CASING} (line 1)" in output
    assert re.search(r" - MaintainerDeprecated: .* \(line 2\)", output)
    shown = told(builder("--debug", "build", "."))
    assert f"{PAGE}" in shown
    assert ">>> MAINTAINER me" in shown


def test_warnings_can_be_errors(builder: Building) -> None:
    write(builder, "# check=error=true", "FROM busybox as x", "RUN echo ran")
    output = told(builder("build", "."), 1)
    assert "lint violation found for rules: FromAsCasing" in output
    assert "[2/2]" not in output
    told(builder("build", "--build-arg", "BUILDKIT_DOCKERFILE_CHECK=skip=FromAsCasing", "."))
    write(builder, "# check=skip=FromAsCasing;error=true", "FROM busybox as x")
    assert "warning" not in told(builder("build", "."))


def test_targets(builder: Building) -> None:
    write(builder, "# base has the tools", "FROM busybox AS base", "FROM base AS last")
    done = builder("build", "--call=targets", ".")
    told(done)
    assert [line.split() for line in done.stdout.splitlines() if line.strip()] == [
        ["TARGET", "DESCRIPTION"],
        ["base", "has", "the", "tools"],
        ["last", "(default)"],
    ]


def test_an_outline(builder: Building) -> None:
    write(
        builder,
        "ARG outer=x",
        "FROM busybox AS one",
        "# name is whom to greet",
        "ARG name=world",
        "RUN --mount=type=secret,id=key,required --mount=type=ssh true",
        "FROM scratch AS other",
        "ARG unused",
    )
    done = builder("build", "--call=outline,format=json", "--target", "one", "--build-arg", "name=moon", ".")
    told(done)
    document = json.loads(done.stdout)
    assert [(one["name"], one["value"], one["description"]) for one in document["args"]] == [
        ("name", "moon", "is whom to greet")
    ]
    assert [(one["name"], one["required"]) for one in document["secrets"]] == [("key", True)]
    assert [one["name"] for one in document["ssh"]] == ["default"]
    assert "BUILD ARG" in builder("build", "--call=outline", "--target", "one", ".").stdout


def test_a_question_that_is_none(builder: Building) -> None:
    write(builder, "FROM busybox")
    assert "weather" in told(builder("build", "--call=frontend.weather", "."), 1)


def test_a_base_image_of_a_registry_is_looked_at_in_one_step(builder: Building, registry: Registry) -> None:
    name = f"{registry.address}/looked-at-once"
    write(builder, "FROM busybox", "ENV of=the-registry")
    told(builder("build", "--provenance=false", "-o", f"type=image,name={name},push=true,store=false", "."))
    write(builder, f"FROM {name}", "RUN echo $of")
    output = told(builder("build", "."))
    assert output.count(f"[internal] load metadata for {name}:latest\n") == 1, output
    builder("rmi", "-f", name)
    write(builder, f"FROM {name}-that-is-none")
    shown = rf"{name}-that-is-none: failed to resolve source metadata for {name}-that-is-none:latest: .*: not found"
    assert re.search(
        f"^ERROR: failed to build: failed to solve: {shown}$", told(builder("build", "."), 1), re.MULTILINE
    )
