"""The docker CLI: every way to mount something, and every row of `docker volume --help`."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def named(docker) -> Iterator[Callable[[str], str]]:
    """Names of containers (`c`) and volumes (`v`) that are gone after the test."""
    made: dict[str, list[str]] = {"c": [], "v": []}

    def name(kind: str) -> str:
        made[kind].append(f"{kind}-{uuid.uuid4().hex[:10]}")
        return made[kind][-1]

    yield name
    for container in made["c"]:
        docker("rm", "-f", "-v", container)
    for volume in made["v"]:
        docker("volume", "rm", "-f", volume)


@pytest.fixture
def place(world) -> Path:
    """An empty directory of the host in which everybody may write, as root of a user's container."""
    path = world.directory()
    path.chmod(0o777)
    return path


@pytest.fixture
def source(place) -> Path:
    """A directory of the host with a file."""
    (place / "file").write_text("from the host\n")
    return place


def said(result, status=0):
    """Standard output of a client that ended as it should, stripped."""
    assert result.returncode == status, result
    return result.stdout.decode().strip()


def run(docker, *words, script="cat /in/file; echo x > /in/new"):
    """`docker run --rm` of a shell."""
    return docker("run", "--rm", "--network", "none", *words, "busybox", "sh", "-c", script)


@pytest.mark.parametrize("form", ["-v", "--mount"])
@pytest.mark.parametrize("readonly", [False, True])
def test_a_directory_of_the_host(docker, source, form, readonly):
    short, long = f"{source}:/in" + ":ro" * readonly, f"type=bind,src={source},dst=/in" + ",readonly" * readonly
    result = run(docker, form, short if form == "-v" else long)
    assert result.stdout == b"from the host\n" and (b"Read-only file system" in result.stderr) is readonly
    assert (source / "new").exists() is not readonly


def test_a_source_that_is_not_there(docker, place):
    missing = place / "missing"
    result = run(docker, "--mount", f"type=bind,src={missing},dst=/in")
    assert result.returncode == 125 and f"bind source path does not exist: {missing}".encode() in result.stderr
    said(run(docker, "-v", f"{missing}:/in", script="touch /in/x"))
    assert (missing / "x").exists()


def test_options_of_a_bind(docker, source):
    for words in ("bind-propagation=rprivate", "bind-recursive=disabled", "readonly,bind-recursive=writable"):
        said(run(docker, "--mount", f"type=bind,src={source},dst=/in,{words}", script="cat /in/file"))
    words = "readonly,bind-recursive=readonly,bind-propagation=rprivate"
    said(run(docker, "--mount", f"type=bind,src={source},dst=/in,{words}", script="cat /in/file"))


@pytest.mark.parametrize("form", ["-v", "--mount"])
def test_a_volume_by_name(docker, named, form):
    volume = named("v")
    words = ("-v", f"{volume}:/in") if form == "-v" else ("--mount", f"type=volume,src={volume},dst=/in")
    said(run(docker, *words, script="echo kept > /in/file"))
    assert said(run(docker, *words, script="cat /in/file")) == "kept"


def test_a_volume_without_a_name_goes_with_rm(docker):
    before = said(docker("volume", "ls", "-q")).split()
    said(run(docker, "-v", "/data", "--mount", "type=volume,dst=/other", script="touch /data/x /other/y"))
    assert said(docker("volume", "ls", "-q")).split() == before


def test_options_of_a_volume(docker, named, source):
    volume = named("v")
    words = f"type=volume,src={volume},dst=/in,volume-label=a=b,volume-driver=local,volume-nocopy"
    options = f'volume-opt=type=none,volume-opt=o=bind,"volume-opt=device={source}"'
    assert said(run(docker, "--mount", f"{words},{options}", script="cat /in/file")) == "from the host"
    shown = json.loads(said(docker("volume", "inspect", volume)))[0]
    assert shown["Labels"] == {"a": "b"} and shown["Options"]["device"] == str(source)
    said(run(docker, "-v", f"{volume}:/in", script="mkdir /in/part; echo part > /in/part/file"))
    part = f"type=volume,src={volume},dst=/in,volume-subpath=part"
    assert said(run(docker, "--mount", part, script="cat /in/file")) == "part"


@pytest.mark.parametrize(
    "words", [("--tmpfs", "/in:size=1m,mode=700"), ("--mount", "type=tmpfs,dst=/in,tmpfs-size=1m,tmpfs-mode=700")]
)
def test_a_tmpfs(docker, words):
    assert said(run(docker, *words, script="stat -c %a /in; df -k /in | tail -1")).startswith("700\ntmpfs ")
    script = "df -k /in | tail -1 | { read a size b; echo $size; }"
    assert said(run(docker, *words, script=script)) == "1024"


def test_an_image(docker):
    script = "ls /in/bin/busybox; touch /in/x 2>/dev/null || echo ro"
    words = ("--mount", "type=image,src=busybox,dst=/in")
    assert said(run(docker, *words, script=script)) == "/in/bin/busybox\nro"


def test_the_volumes_of_another_container(docker, named, source):
    first, volume = named("c"), named("v")
    said(docker("create", "--name", first, "-v", f"{volume}:/v", "-v", f"{source}:/in:ro", "busybox", "true"))
    script = "cat /in/file; echo x > /v/x && echo rw"
    assert said(run(docker, "--volumes-from", first, script=script)) == "from the host\nrw"
    assert run(docker, "--volumes-from", f"{first}:ro", script=script).returncode == 1


def test_a_read_only_root(docker, source):
    script = "touch /x 2>/dev/null || echo ro; touch /in/x /tmp/x && echo rw"
    words = ("--read-only", "-v", f"{source}:/in", "--tmpfs", "/tmp")
    assert said(run(docker, *words, script=script)) == "ro\nrw"


def test_volume_driver(docker):
    # A 404 makes the client look for the image.
    result = run(docker, "--pull", "never", "--volume-driver", "nope", "-v", "some-volume:/in")
    assert result.returncode == 125 and b'error looking up volume plugin nope: plugin "nope" not found' in result.stderr
    said(run(docker, "--volume-driver", "local", "-v", "/in", script="true"))


def test_ps_and_inspect_show_the_mounts(docker, named, source):
    name, volume = named("c"), named("v")
    said(docker("create", "--name", name, "-v", f"{volume}:/v", "-v", f"{source}:/in:ro", "busybox", "true"))
    listed = said(
        docker("ps", "-a", "--no-trunc", "--filter", f"volume={volume}", "--format", "{{.Names}} {{.Mounts}}")
    )
    assert listed.split()[0] == name and set(listed.split()[1].split(",")) == {volume, str(source)}
    mounts = json.loads(said(docker("inspect", "--format", "{{json .Mounts}}", name)))
    assert {(each["Type"], each["Destination"], each["RW"]) for each in mounts} == {
        ("volume", "/v", True),
        ("bind", "/in", False),
    }


def test_volume_create_inspect_ls_rm(docker, named):
    volume = named("v")
    options = ("--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=size=1m")
    assert said(docker("volume", "create", "--label", "a=b", *options, volume)) == volume
    shown = json.loads(said(docker("volume", "inspect", volume)))[0]
    assert (shown["Name"], shown["Driver"], shown["Labels"]) == (volume, "local", {"a": "b"})
    assert shown["Options"] == {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}
    assert said(docker("volume", "ls", "-q", "--filter", "label=a", "--filter", f"name={volume}")) == volume
    row = said(docker("volume", "ls", "--filter", f"name={volume}")).splitlines()[1].split()
    assert row == ["local", volume]
    assert said(docker("volume", "rm", volume)) == volume
    result = docker("volume", "inspect", volume)
    assert result.returncode == 1 and f"get {volume}: no such volume".encode() in result.stderr
    assert docker("volume", "rm", volume).returncode == 1
    said(docker("volume", "rm", "-f", volume))


def test_a_volume_that_is_used_is_not_removed(docker, named):
    name, volume = named("c"), named("v")
    said(docker("create", "--name", name, "-v", f"{volume}:/v", "busybox", "true"))
    result = docker("volume", "rm", volume)
    assert result.returncode == 1 and b"volume is in use" in result.stderr


def test_volume_prune(docker, named):
    volume, anonymous = named("v"), said(docker("volume", "create"))
    said(docker("volume", "create", volume))
    assert anonymous in said(docker("volume", "prune", "-f"))
    assert volume in said(docker("volume", "ls", "-q")).split()
    out = said(docker("volume", "prune", "-a", "-f", "--filter", "label!=spare"))
    assert volume in out and "Total reclaimed space" in out


def test_volume_update_is_for_swarms(docker, named):
    volume = named("v")
    said(docker("volume", "create", volume))
    assert docker("volume", "update", "--availability", "drain", volume).returncode == 1
