"""The engine's own client: images, builds, networks, volumes, disk usage, prune."""

import io
import json
import sys
import tarfile
import uuid

import pytest

from tests.clients.cli import ageless, said

COMMAND = (sys.executable, "-m", "engine")


@pytest.fixture
def fresh(engine):
    """A name for an image, a network or a volume, all of which are gone after the test."""
    name = f"own-{uuid.uuid4().hex[:12]}"
    yield name
    engine("rmi", "-f", name, f"{name}:other")
    engine("network", "rm", "-f", name)
    engine("volume", "rm", "-f", name)


@pytest.fixture
def place(tmp_path):
    """A build context with what .dockerignore leaves out."""
    (tmp_path / "Dockerfile").write_text("FROM busybox\nCOPY . /c\nRUN ls /c && echo built >&2\n")
    (tmp_path / ".dockerignore").write_text("*.log\nsub\n!sub/kept\n")
    (tmp_path / "sub").mkdir()
    for name in ("a", "b.log", "sub/kept", "sub/left"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_an_image_is_built_of_a_directory(engine, fresh, place):
    result = engine("build", "-t", fresh, "--iidfile", str(place.parent / "iid"), "--label", "x=y", str(place))
    text = said(result)
    assert text.startswith("Sending build context to the engine  ")
    assert "Step 3/" in text and "\nbuilt\n" in text
    assert f"Successfully tagged {fresh}:latest" in text
    shown = said(engine("run", "--rm", fresh, "find", "/c", "-type", "f"))
    assert sorted(shown.split()) == ["/c/.dockerignore", "/c/Dockerfile", "/c/a", "/c/sub/kept"]
    identity, label = said(engine("inspect", "-f", '{{.Id}} {{index .Config.Labels "x"}}', fresh)).split()
    assert (identity, label) == ((place.parent / "iid").read_text(), "y")
    (place.parent / "iid").unlink()


def test_client_and_docker_send_the_same_context(engine, docker, fresh, place, monkeypatch):
    """So that the second build finds every step in the cache."""
    docker.environment["DOCKER_BUILDKIT"] = "0"
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    (place / "sub").chmod(0o700)
    ours = said(engine("build", "-q", "-t", fresh, str(place))).strip()
    theirs = docker("build", "-q", "-t", f"{fresh}:other", str(place))
    assert theirs.stdout.decode().strip() == ours, theirs


def test_a_quiet_build_says_the_id_and_a_failed_one_its_commands_code(engine, place):
    assert said(engine("build", "-q", str(place))).startswith("sha256:")
    (place / "Dockerfile").write_text("FROM busybox\nRUN echo before; exit 7\n")
    for quiet in ([], ["-q"]):
        failed = engine("build", *quiet, str(place))
        assert failed.returncode == 7
        assert b"returned a non-zero code: 7\n" in failed.stderr
        assert b"before" in (failed.stderr if quiet else failed.stdout)


def test_a_context_or_a_dockerfile_comes_by_the_input(engine, fresh, place):
    text = b"FROM busybox\nRUN echo of the input\n"
    assert "of the input" in said(engine("build", "--no-cache", "-", input=text))
    result = engine("build", "-t", fresh, "-f", "-", str(place), input=text + b"COPY a /a\n")
    assert "of the input" in said(result)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(place / "Dockerfile", "Other")
        tar.add(place / "a", "a")
    assert "Successfully built" in said(engine("build", "-f", "Other", "-", input=archive.getvalue()))
    outside = place.parent / "outside"
    outside.write_bytes(text)
    assert "of the input" in said(engine("build", "-f", str(outside), str(place)))
    for words in (["/nope"], ["-f", "/nope", str(place)], ["-f", "-", "-"]):
        assert engine("build", *words).returncode == 1


def test_a_context_comes_from_elsewhere(engine, served):
    """The daemon fetches it: here a Dockerfile, with what limits its steps."""
    text = b"FROM busybox\nRUN echo limit $(ulimit -n)\n"
    url = served({"/Dockerfile": (200, {"Content-Type": "text/plain"}, text)})
    built = said(engine("build", "--no-cache", "--ulimit", "nofile=77:88", "--cpuset-mems", "0", f"{url}/Dockerfile"))
    assert "limit 77" in built and "Successfully built" in built
    failed = engine("build", f"{url}/nope")
    assert failed.returncode == 1 and b"Error response from daemon" in failed.stderr


def test_an_image_is_tagged_saved_removed_and_loaded(engine, fresh, tmp_path):
    said(engine("tag", "busybox", fresh))
    file = tmp_path / "image.tar"
    said(engine("save", "-o", str(file), fresh))
    assert engine("save", fresh).stdout[:100] == file.read_bytes()[:100]
    assert said(engine("rmi", fresh)) == f"Untagged: {fresh}:latest\n"
    assert said(engine("load", "-i", str(file))) == f"Loaded image: {fresh}:latest\n"
    assert said(engine("load", input=file.read_bytes())) == f"Loaded image: {fresh}:latest\n"
    assert said(engine("images", "-q", fresh)) == said(engine("images", "-q", "busybox"))
    refused = engine("save", "-o", str(tmp_path / "none.tar"), "own/none")
    assert (refused.returncode, sorted(path.name for path in tmp_path.iterdir())) == (1, ["image.tar"])
    assert engine("rmi", "own/none").returncode == 1
    assert engine("rmi", "-f", "own/none").returncode == 0


def test_lists_of_images_are_dockers(engine, docker, fresh):
    said(engine("tag", "busybox", fresh))
    for words in (
        ["images", "--no-trunc", fresh],
        ["images", "--digests", fresh],
        ["images", "-q", fresh],
        ["image", "ls", "-f", f"reference={fresh}"],
        ["images", "--format", "{{.Repository}}:{{.Tag}} {{.ID}} {{.Size}}", fresh],
        ["image", "inspect", "-f", "{{.Os}} {{.Architecture}} {{json .RepoTags}}", fresh],
    ):
        assert ageless(engine(*words).stdout) == ageless(docker(*words).stdout), words
        said(engine(*words))


def test_an_image_goes_to_a_registry_and_comes_back(engine, registry, fresh):
    name = f"127.0.0.1:5000/{fresh}:1"
    said(engine("tag", "busybox", name))
    text = said(engine("push", name))
    assert "1: digest: sha256:" in text
    said(engine("rmi", name))
    text = said(engine("pull", name))
    assert text.endswith(f"{name}\n") and "Status: Downloaded newer image" in text
    said(engine("rmi", name))
    assert said(engine("pull", "-q", name)) == f"{name}\n"
    result = engine("run", "--rm", "--pull", "always", "-q", name, "echo", "hi")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"hi\n", b"")
    said(engine("rmi", name))
    result = engine("run", "--rm", name, "echo", "hi")
    assert (result.returncode, result.stdout) == (0, b"hi\n")
    assert result.stderr.startswith(f"Unable to find image '{name}' locally\n".encode())
    said(engine("rmi", name))


def test_networks(engine, docker, fresh):
    words = ["--subnet", "10.231.5.0/24", "--gateway", "10.231.5.1", "--ip-range", "10.231.5.128/25"]
    said(engine("network", "create", *words, "--internal", "--label", "x=y", "-o", "a=b", fresh))
    (found,) = json.loads(said(engine("network", "inspect", fresh)))
    assert found["IPAM"]["Config"] == [
        {"Subnet": "10.231.5.0/24", "IPRange": "10.231.5.128/25", "Gateway": "10.231.5.1"}
    ]
    assert (found["Internal"], found["Labels"], found["Options"]["a"]) == (True, {"x": "y"}, "b")
    for words in (["ls"], ["ls", "-q", "--no-trunc"], ["ls", "--format", '{{.Name}} {{.Internal}} {{.Label "x"}}']):
        assert said(engine("network", *words)) == said(docker("network", *words))
    container = said(engine("run", "-d", "--network", "none", "busybox", "sleep", "600")).strip()
    try:
        assert engine("network", "connect", fresh, container).returncode == 1  # none is alone
    finally:
        said(engine("rm", "-f", container))
    container = said(engine("run", "-d", "--network", fresh, "--ip", "10.231.5.9", "busybox", "sleep", "600")).strip()
    try:
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        assert said(engine("inspect", "-f", form, container)) == "10.231.5.9\n"
        said(engine("network", "disconnect", fresh, container))
        said(engine("network", "connect", "--ip", "10.231.5.8", "--alias", "other", fresh, container))
        assert said(engine("inspect", "-f", form, container)) == "10.231.5.8\n"
    finally:
        said(engine("rm", "-f", container))
    assert said(engine("network", "rm", fresh)) == f"{fresh}\n"
    assert engine("network", "rm", fresh).returncode == 1
    assert engine("network", "create", "--gateway", "10.0.0.1", fresh).stderr.startswith(b"engine: no matching subnet")


def test_volumes(engine, docker, fresh):
    assert said(engine("volume", "create", "--label", "x=y", fresh)) == f"{fresh}\n"
    for words in (["ls"], ["ls", "-q"], ["ls", "--format", '{{.Name}} {{.Driver}} {{.Label "x"}}']):
        assert said(engine("volume", *words)) == said(docker("volume", *words))
    said(engine("run", "--rm", "-v", f"{fresh}:/v", "busybox", "sh", "-c", "echo kept > /v/f"))
    assert said(engine("run", "--rm", "--mount", f"src={fresh},dst=/v,ro", "busybox", "cat", "/v/f")) == "kept\n"
    assert said(engine("volume", "inspect", "-f", "{{.Name}} {{.Scope}}", fresh)) == f"{fresh} local\n"
    assert said(engine("volume", "rm", fresh)) == f"{fresh}\n"
    assert engine("volume", "rm", fresh).returncode == 1


def test_prune_asks_first(own_daemon):
    def engine(*words, **named):
        return own_daemon.command(*COMMAND, *words, **named)

    said(engine("volume", "create", "kept"))
    said(engine("network", "create", "kept"))
    said(engine("create", "--name", "kept", "busybox"))
    for answer in (b"n\n", b""):
        refused = engine("system", "prune", "--volumes", input=answer)
        assert refused.returncode == 1
        assert b"WARNING! This will remove:" in refused.stdout
    text = said(engine("system", "prune", "--volumes", input=b"y\n"))
    assert "Deleted Containers:\n" in text and "Deleted Networks:\nkept\n" in text
    assert "Total reclaimed space: " in text
    assert said(engine("volume", "ls", "-q")) == "kept\n"  # it has a name
    assert "Deleted Volumes:\nkept\n" in said(engine("volume", "prune", "-af"))
    said(engine("tag", "busybox", "busybox:other"))
    assert said(engine("image", "prune", "-f")) == "Total reclaimed space: 0B\n"
    assert "untagged: busybox:other\n" in said(engine("image", "prune", "-af"))
    assert said(engine("container", "prune", "-f")) == "Total reclaimed space: 0B\n"
    assert said(engine("network", "prune", "-f")) == ""


def test_disk_usage_is_dockers(own_daemon, monkeypatch):
    said(own_daemon.command(*COMMAND, "create", "-v", "/v", "--name", "one", "busybox"))
    said(own_daemon.command(*COMMAND, "run", "-d", "--name", "two", "busybox", "sleep", "600"))
    for words in (["system", "df"], ["system", "df", "--format", "{{.Type}} {{.TotalCount}} {{.Reclaimable}}"]):
        ours, theirs = own_daemon.command(*COMMAND, *words), own_daemon.command("docker", *words)
        assert said(ours) == said(theirs)
    text = said(own_daemon.command(*COMMAND, "system", "df", "-v"))
    assert all(part in text for part in ("Images space usage:", "one\n", "two\n", "Build cache usage: 0B"))


def test_info_names_what_the_daemon_has(engine, docker):
    text = said(engine("info"))
    assert "Server Version: " in text and "Storage Driver: " in text
    form = "{{.ServerVersion}} {{.Driver}} {{.NCPU}} {{json .SecurityOptions}}"
    assert said(engine("info", "-f", form)) == said(docker("info", "-f", form))
    assert said(engine("version", "-f", "{{.Server.ApiVersion}}")) == "1.54\n"


def test_inspect_looks_among_all_kinds(engine, docker, fresh):
    said(engine("volume", "create", fresh))
    assert said(engine("inspect", "-f", "{{.Name}}", fresh, "bridge")) == f"{fresh}\nbridge\n"
    for words in (
        ["inspect", "own-nobody"],
        ["inspect", "--type", "image", fresh],
        ["inspect", "-f", "{{", fresh],
        ["inspect", "-f", "{{.Nope}}", fresh],
    ):
        assert engine(*words).returncode == docker(*words).returncode, words
    for form in ("{{js .Name}}", '{{template "x"}}'):
        refused = engine("inspect", "-f", form, fresh)
        assert refused.returncode == 1
        assert b"a part of Go's templates that this client does not have" in refused.stderr
