"""Every option of `docker build --help` by the real CLI with its classic builder, and the SDK's `images.build`.

A row is a function here named after its option; the first test reads the client's own help, so that an option which a
newer client brings has to be shown too. What the classic builder cannot have is refused in words: REFUSED lists it.
"""

import glob
import io
import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.cli import OPTION, said
from tests.clients.conftest import Client
from tests.harness.contexts import Member, archive, link

REFUSED = {
    "squash": "only supported on a Docker daemon with experimental features enabled",
    "security-opt": "",
    "isolation": 'Unsupported isolation: "hyperv"',
}


@pytest.fixture
def build(daemon, docker) -> Client:
    """`docker build` with the classic builder."""
    return Client(daemon, "env", "DOCKER_BUILDKIT=0", "docker", "build")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A context: a Dockerfile whose steps nobody else's are, and a file."""
    (tmp_path / "Dockerfile").write_text(f"FROM busybox\nLABEL of={uuid.uuid4().hex}\nRUN echo ran\n")
    (tmp_path / "a").write_text("a")
    return tmp_path


@pytest.fixture
def tag(docker) -> Iterator[str]:
    """A name for an image that is gone after the test."""
    name = f"row-{uuid.uuid4().hex[:12]}"
    yield f"{name}:t"
    docker("rmi", "-f", f"{name}:t")


def write(place: Path, *lines: str) -> None:
    """Another Dockerfile, on busybox."""
    text = "\n".join(("FROM busybox", f"LABEL of={uuid.uuid4().hex}", *lines))
    (place / "Dockerfile").write_text(text + "\n")


def kept(docker, build, place: Path, *options: str) -> dict:
    """The HostConfig of the container in which a step ran with these options."""
    output = said(build("--rm=false", *options, str(place)))
    container = re.search(r"Running in (\w+)", output)[1]
    try:
        return json.loads(said(docker("inspect", "--format", "{{json .HostConfig}}", container)))
    finally:
        docker("rm", "-f", container)


def shown(docker, image: str, form: str) -> object:
    """A part of what inspect says."""
    return json.loads(said(docker("image", "inspect", "--format", "{{json " + form + "}}", image)))


def test_every_option_of_the_help_is_shown_here(build) -> None:
    options = OPTION.findall(said(build("--help")))
    assert len(options) > 25
    assert [option for option in options if f"test_{option.replace('-', '_')}" not in globals()] == []


# Rows of the help


def test_add_host(build, place: Path) -> None:
    write(place, "RUN cat /etc/hosts")
    assert re.search(r"^10\.9\.8\.7\s+elsewhere$", said(build("--add-host", "elsewhere:10.9.8.7", str(place))), re.M)


def test_build_arg(build, place: Path) -> None:
    write(place, "ARG X=default", "RUN echo it is $X and $http_proxy")
    assert "it is given and p:1" in said(build("--build-arg", "X=given", "--build-arg", "http_proxy=p:1", str(place)))
    assert "[Warning] One or more build-args [NOBODYS] were not consumed" in said(
        build("--build-arg", "NOBODYS=1", str(place))
    )


def test_cache_from(docker, build, place: Path, tag: str) -> None:
    first = said(build("-t", tag, str(place)))
    assert "Using cache" not in first
    assert said(build("--cache-from", tag, str(place))).count("Using cache") == 2
    assert "Successfully built" in said(build("--cache-from", "nobody-has:this", "--no-cache", str(place)))


def test_cgroup_parent(docker, build, place: Path) -> None:
    """One that a step was the first to lie in is gone with the last of its steps; one that leads upwards is refused."""
    asked = "/of-a-build/inner"
    assert kept(docker, build, place, "--cgroup-parent", asked)["CgroupParent"] == asked
    assert glob.glob("/sys/fs/cgroup/**/of-a-build", recursive=True) == []
    done = build("--cgroup-parent", "../../of-a-build", str(place))
    assert done.returncode == 1 and b"it leads upwards" in done.stderr


def test_compress(docker, build, place: Path, tag: str) -> None:
    write(place, "COPY a /a", "RUN cat /a")
    assert "\na" in said(build("--compress", "-t", tag, str(place)))


def test_cpu_period(docker, build, place: Path) -> None:
    assert kept(docker, build, place, "--cpu-period", "50000", "--cpu-quota", "20000")["CpuPeriod"] == 50000


def test_cpu_quota(docker, build, place: Path) -> None:
    assert kept(docker, build, place, "--cpu-quota", "20000")["CpuQuota"] == 20000


def test_cpu_shares(docker, build, place: Path) -> None:
    assert kept(docker, build, place, "-c", "77")["CpuShares"] == 77


def test_cpuset_cpus(docker, build, place: Path) -> None:
    assert kept(docker, build, place, "--cpuset-cpus", "0")["CpusetCpus"] == "0"


def test_cpuset_mems(docker, build, place: Path) -> None:
    assert kept(docker, build, place, "--cpuset-mems", "0")["CpusetMems"] == "0"


def test_disable_content_trust(build, place: Path) -> None:
    assert "Successfully built" in said(build("--disable-content-trust", str(place)))


def test_file(build, place: Path) -> None:
    (place / "deep").mkdir()
    (place / "deep" / "Other").write_text("FROM busybox\nCOPY a /other\nRUN cat /other; echo")
    assert "\na\n" in said(build("-f", str(place / "deep" / "Other"), str(place)))
    # A Dockerfile of its own on standard input, beside a context.
    given = build("-f", "-", str(place), input=b"FROM busybox\nCOPY . /all\nRUN ls /all")
    assert "\nDockerfile\na\ndeep\n" in said(given)


def test_force_rm(docker, build, place: Path) -> None:
    write(place, "RUN echo failing; exit 3")
    failed = build("--force-rm", str(place))
    assert failed.returncode == 3 or b"returned a non-zero code: 3" in failed.stderr, failed
    container = re.search(rb"Running in (\w+)", failed.stdout)[1].decode()
    assert docker("inspect", container).returncode == 1
    left = re.search(rb"Running in (\w+)", build(str(place)).stdout)[1].decode()
    assert said(docker("rm", left))


def test_iidfile(docker, build, place: Path, tag: str) -> None:
    said(build("--iidfile", str(place / "id"), "-t", tag, str(place)))
    assert (place / "id").read_text() == shown(docker, tag, ".Id")


def test_isolation(build, place: Path) -> None:
    said(build("--isolation", "default", str(place)))
    assert REFUSED["isolation"] in build("--isolation", "hyperv", str(place)).stderr.decode()


def test_label(docker, build, place: Path, tag: str) -> None:
    said(build("--label", "one=1", "--label", "two", "-t", tag, str(place)))
    assert shown(docker, tag, ".Config.Labels").items() >= {"one": "1", "two": ""}.items()


def test_memory(docker, build, place: Path) -> None:
    assert kept(docker, build, place, "-m", "64m")["Memory"] == 64 << 20


def test_memory_swap(docker, build, place: Path) -> None:
    assert kept(docker, build, place, "-m", "64m", "--memory-swap", "-1")["MemorySwap"] == -1


def test_network(build, place: Path) -> None:
    write(place, "RUN ls /sys/class/net")
    assert "\nlo\n" in said(build("--network", "none", str(place)))


def test_no_cache(build, place: Path) -> None:
    first, second = said(build(str(place))), said(build(str(place)))
    assert second.count("Using cache") == 2 and "Using cache" not in first
    assert "Using cache" not in said(build("--no-cache", str(place)))


def test_platform(docker, build, place: Path, tag: str) -> None:
    said(build("--platform", "linux/amd64" if os.uname().machine == "x86_64" else "linux/arm64", "-t", tag, str(place)))
    assert build("--platform", "no/such/thing/at-all", str(place)).returncode == 1


def test_pull(build, place: Path, registry) -> None:
    write(place)
    text = (place / "Dockerfile").read_text()
    (place / "Dockerfile").write_text(text.replace("busybox", f"{registry.address}/nobody/pushed-this"))
    assert b"not found" in build("--pull", str(place)).stderr


def test_quiet(docker, build, place: Path, tag: str) -> None:
    output = said(build("-q", "-t", tag, str(place)))
    assert output.strip() == shown(docker, tag, ".Id")


def test_rm(docker, build, place: Path) -> None:
    output = said(build(str(place)))
    container = re.search(r"Running in (\w+)", output)[1]
    assert f"Removed intermediate container {container}" in output
    assert docker("inspect", container).returncode == 1
    assert kept(docker, build, place, "--no-cache")


def test_security_opt(build, place: Path) -> None:
    refused = build("--security-opt", "label=off", str(place))
    assert refused.returncode == 1 and b"security options" in refused.stderr


def test_shm_size(build, docker, place: Path) -> None:
    assert kept(docker, build, place, "--shm-size", "1m")["ShmSize"] == 1 << 20


def test_squash(build, place: Path) -> None:
    refused = build("--squash", str(place))
    assert refused.returncode == 1 and REFUSED["squash"] in refused.stderr.decode()


def test_tag(docker, build, place: Path, tag: str) -> None:
    output = said(build("-t", tag, "-t", f"{tag}2", str(place)))
    assert f"Successfully tagged {tag}\n" in output and f"Successfully tagged {tag}2\n" in output
    said(docker("rmi", f"{tag}2"))


def test_target(build, place: Path) -> None:
    (place / "Dockerfile").write_text("FROM busybox AS first\nRUN echo first\nFROM busybox\nRUN echo second\n")
    output = said(build("--no-cache", "--target", "first", str(place)))
    assert "\nfirst\n" in output and "second" not in output
    assert build("--target", "nope", str(place)).returncode == 1


def test_ulimit(docker, build, place: Path) -> None:
    limits = kept(docker, build, place, "--ulimit", "nofile=99:100")["Ulimits"]
    assert limits == [{"Name": "nofile", "Hard": 100, "Soft": 99}]


# Contexts


def test_a_dockerfile_alone_on_standard_input(build) -> None:
    text = f"FROM busybox\nLABEL of={uuid.uuid4().hex}\nRUN echo alone"
    assert "\nalone\n" in said(build("-", input=text.encode()))
    missing = build("-", input=b"FROM busybox\nCOPY a /a")
    assert b"COPY failed: file not found in build context" in missing.stderr, missing


def test_a_context_on_standard_input(build) -> None:
    sent = archive(Member("d/Dockerfile", "FROM busybox\nCOPY d/a /\nRUN cat a"), Member("d/a", "piped"))
    assert "\npiped" in said(build("-f", "d/Dockerfile", "-", input=sent))


def test_the_client_leaves_out_what_dockerignore_says(build, place: Path) -> None:
    write(place, "COPY . /all", "RUN cd /all; find . | sort")
    for name in ("keep.txt", "no.txt", "x.log"):
        (place / name).write_text(name)
    (place / "deep").mkdir()
    (place / "deep" / "x.log").write_text("log")
    (place / ".dockerignore").write_text("# all but one\n*.txt\n!keep.txt\n**/*.log\nDockerfile\n.dockerignore\n")
    assert "\n.\n./a\n./deep\n./keep.txt\n" in said(build(str(place)))


def test_links_and_modes_come_through_the_client(build, place: Path) -> None:
    (place / "run").write_text("x")
    (place / "run").chmod(0o751)
    (place / "link").symlink_to("/etc/hostname")
    write(place, "COPY --chown=daemon:staff . /all", "RUN cd /all; stat -c '%n %a %U:%G' run; readlink link")
    assert "\nrun 751 daemon:staff\n/etc/hostname\n" in said(build(str(place)))


def test_the_url_of_an_archive(daemon, build, served) -> None:
    sent = archive(Member("Dockerfile", "FROM busybox\nCOPY a /\nRUN cat a"), Member("a", "from afar"))
    url = served({"/ctx.tar": (200, {"Content-Type": "application/x-tar"}, sent)})
    # This client downloads by itself, so it stands where the server is.
    words = daemon.namespaces.command([*build.program, f"{url}/ctx.tar"])
    assert "\nfrom afar" in said(daemon.command(*words))


def test_a_failing_step_ends_the_client_with_its_status(build, place: Path) -> None:
    write(place, "RUN exit 7")
    failed = build(str(place))
    assert failed.returncode == 7 and b"returned a non-zero code: 7" in failed.stderr, failed
    (place / "Dockerfile").write_text("FROM busybox\nRNU x\n")
    wrong = build(str(place))
    assert b"dockerfile parse error on line 2: unknown instruction: RNU" in wrong.stderr, wrong


# The SDK


def test_the_sdk_builds_a_directory_with_every_option(sdk, place: Path, tag: str) -> None:
    write(place, "ARG X", "COPY a /a", "RUN echo $X; cat /etc/hosts", "FROM scratch AS other")
    text = (place / "Dockerfile").read_text().replace("busybox", "busybox AS wanted")
    (place / "Named").write_text(text)
    image, lines = sdk.images.build(
        path=str(place),
        tag=tag,
        dockerfile="Named",
        buildargs={"X": "from the sdk"},
        labels={"by": "sdk"},
        target="wanted",
        nocache=True,
        rm=True,
        forcerm=True,
        pull=False,
        gzip=True,
        shmsize=1 << 20,
        network_mode="none",
        extra_hosts={"there": "10.1.2.3"},
        container_limits={"memory": 64 << 20, "cpushares": 10, "cpusetcpus": "0"},
        cache_from=["busybox"],
    )
    output = "".join(line.get("stream", "") for line in lines)
    assert "from the sdk" in output and "10.1.2.3" in output
    assert tag in image.tags and image.labels["by"] == "sdk"


def test_the_sdk_builds_a_file_an_archive_and_a_url(sdk, served) -> None:
    text = b"FROM busybox\nLABEL kind=file\n"
    assert sdk.images.build(fileobj=io.BytesIO(text))[0].labels["kind"] == "file"
    sent = archive(Member("Dockerfile", text), link("x", "y"))
    assert sdk.images.build(fileobj=io.BytesIO(sent), custom_context=True)[0].labels["kind"] == "file"
    url = served({"/ctx": (200, {"Content-Type": "application/x-tar"}, sent)})
    assert sdk.images.build(path=f"{url}/ctx")[0].labels["kind"] == "file"


def test_the_sdk_tells_what_failed(sdk) -> None:
    package = pytest.importorskip("docker")
    with pytest.raises(package.errors.BuildError, match="non-zero code: 9"):
        sdk.images.build(fileobj=io.BytesIO(b"FROM busybox\nRUN exit 9"), forcerm=True)
    with pytest.raises(package.errors.APIError, match="squash is only supported with experimental mode"):
        sdk.images.build(fileobj=io.BytesIO(b"FROM busybox"), squash=True)
    with pytest.raises(package.errors.APIError, match="git ls-remote failed"):
        sdk.images.build(path="http://127.0.0.1:1/nothing.git")
