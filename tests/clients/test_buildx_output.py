"""`docker build --output`, `--push`, `--load` and the files that tell of a result, with the real CLI and buildx."""

import io
import json
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.clients.building import Building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.harness.registry import OCI_INDEX, OCI_MANIFEST, Registry

pytestmark = pytest.mark.seldom

LAYER = "application/vnd.oci.image.layer.v1.tar"


def of(registry: Registry, repository: str, reference: str) -> dict:
    """A manifest or index of the registry."""
    accept = {"Accept": f"{OCI_INDEX}, {OCI_MANIFEST}"}
    reply = registry.request("GET", f"/v2/{repository}/manifests/{reference}", headers=accept)
    assert reply.status == 200, reply
    return json.loads(reply.body)


def manifest_of(registry: Registry, repository: str, reference: str) -> dict:
    """The manifest of an image, which may stand in an index."""
    found = of(registry, repository, reference)
    return of(registry, repository, found["manifests"][0]["digest"]) if "manifests" in found else found


def files_of(data: bytes) -> dict[str, tarfile.TarInfo]:
    """The members of an archive by name."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


def document(layout: Path | bytes, digest: str) -> dict:
    """A document of an OCI layout, which is a directory or an archive."""
    name = f"blobs/{digest.replace(':', '/')}"
    if isinstance(layout, Path):
        return json.loads((layout / name).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(layout)) as archive:
        return json.loads(archive.extractfile(name).read())


def test_a_directory_gets_the_files(buildx: Building, tmp_path: Path) -> None:
    """Files, links of both kinds, modes, times, names that are no text, and many of them."""
    buildx.write(
        "RUN mkdir -p /out/deep/er && cd /out && echo one > a && ln a b && ln -s a c && chmod 4751 a"
        " && : > empty && for n in $(seq 3000); do echo $n > deep/er/$n; done"
        " && head -c 300000 /dev/urandom > large && sha256sum large > sum && touch -d @1000000000 a"
        " && touch \"$(printf 'odd\\377')\" && chmod 750 deep",
        "FROM scratch",
        "COPY --from=0 /out /",
    )
    out = tmp_path / "out"
    (out / "there").mkdir(parents=True)
    output = told(buildx("build", "-o", str(out), "."))
    assert "exporting to client directory" in output and "copying files" in output
    assert (out / "a").read_text() == "one\n"
    assert os.stat(out / "a").st_ino == os.stat(out / "b").st_ino
    assert os.stat(out / "a").st_mtime == 1000000000
    assert stat.S_IMODE(os.stat(out / "a").st_mode) == 0o4751
    assert os.readlink(out / "c") == "a"
    assert (out / "empty").read_bytes() == b""
    assert len(os.listdir(out / "deep" / "er")) == 3000
    assert (out / "deep" / "er" / "2999").read_text() == "2999\n"
    assert stat.S_IMODE(os.stat(out / "deep").st_mode) == 0o750
    assert os.path.exists(os.fsencode(out) + b"/odd\xff")
    subprocess.run(["sha256sum", "-c", "sum"], cwd=out, check=True, capture_output=True)
    assert (out / "there").is_dir(), "what was in the directory before stays"


def test_a_directory_that_cannot_be_written(buildx: Building, tmp_path: Path) -> None:
    buildx.write("FROM scratch", "COPY --from=0 /bin/busybox /a/b")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("a file where a directory is to be")
    done = buildx("build", "-o", str(tmp_path / "out"), ".")
    if done.returncode:  # a client may also replace it
        assert "the client cannot take the files" in done.stderr or "not a directory" in done.stderr
    else:
        assert (tmp_path / "out" / "a" / "b").exists()
    assert told(buildx("build", "-o", str(tmp_path / "other"), ".")), "the daemon goes on"


def test_an_archive_of_the_files(buildx: Building, tmp_path: Path) -> None:
    buildx.write("RUN mkdir /out && echo x > /out/f && ln /out/f /out/g", "FROM scratch", "COPY --from=0 /out /d")
    told(buildx("build", "-o", f"type=tar,dest={tmp_path}/t.tar", "."))
    found = files_of((tmp_path / "t.tar").read_bytes())
    assert set(found) == {"d", "d/f", "d/g"}
    assert found["d/g"].islnk() and found["d/g"].linkname == "d/f"
    shown = subprocess.run(
        ["docker", "build", "-q", "-o", "-", "."], cwd=buildx.place, env=buildx.environment, capture_output=True
    )
    assert set(files_of(shown.stdout)) == {"d", "d/f", "d/g"}, shown


@pytest.mark.parametrize("kind", ["oci", "docker"])
def test_an_archive_of_the_image(buildx: Building, docker: Client, tag: str, tmp_path: Path, kind: str) -> None:
    buildx.write("RUN echo in the archive > /f", 'CMD ["cat", "/f"]')
    made = tmp_path / "image.tar"
    told(buildx("build", "-o", f"type={kind},dest={made},name={tag}:x", "."))
    data = made.read_bytes()
    with tarfile.open(made) as archive:
        index = json.loads(archive.extractfile("index.json").read())
    entry = index["manifests"][0]
    assert entry["annotations"]["io.containerd.image.name"] == f"docker.io/library/{tag}:x"
    assert entry["mediaType"] == OCI_MANIFEST, "an attestation that is for images alone stays out"
    assert document(data, entry["digest"])["layers"][-1]["mediaType"] == f"{LAYER}+gzip"
    assert ("manifest.json" in files_of(data)) == (kind == "docker")
    said(docker("load", "-i", str(made)))
    assert said(docker("run", "--rm", f"{tag}:x")) == "in the archive\n"
    said(docker("rmi", f"{tag}:x"))


def test_a_layout_in_a_directory(buildx: Building, tmp_path: Path) -> None:
    """The parts go into a content store of the client's; a second time they are there already."""
    buildx.write("RUN echo once > /f")
    layout = tmp_path / "layout"
    for _ in range(2):
        told(buildx("build", "-o", f"type=oci,dest={layout},tar=false", "."))
        index = json.loads((layout / "index.json").read_bytes())
        manifest = document(layout, index["manifests"][-1]["digest"])
        for part in (manifest["config"], *manifest["layers"]):
            assert os.stat(layout / "blobs" / part["digest"].replace(":", "/")).st_size == part["size"]


def test_two_outputs_at_once(buildx: Building, docker: Client, tag: str, tmp_path: Path) -> None:
    buildx.write("FROM scratch", "COPY --from=0 /etc/passwd /p", "COPY --from=0 /bin/busybox /b", 'CMD ["/b"]')
    outputs = (
        "-o",
        f"type=local,dest={tmp_path}/d",
        "-o",
        f"type=tar,dest={tmp_path}/t",
        "-o",
        f"type=image,name={tag}",
    )
    told(buildx("build", *outputs, "."))
    assert (tmp_path / "d" / "p").exists()
    assert "p" in files_of((tmp_path / "t").read_bytes())
    said(docker("inspect", tag))


def test_load(buildx: Building, docker: Client, tag: str) -> None:
    buildx.write("RUN true")
    told(buildx("build", "--load", "-t", tag, "."))
    said(docker("inspect", tag))


def test_pushed(buildx: Building, docker: Client, registry: Registry, tag: str, tmp_path: Path) -> None:
    name = f"{registry.address}/{tag}"
    buildx.write("RUN echo pushed > /f", 'CMD ["cat", "/f"]')
    output = told(
        buildx("build", "--push", "-t", f"{name}:a", "-t", f"{name}:b", "--metadata-file", f"{tmp_path}/m", ".")
    )
    assert f"pushing manifest for {name}:a@sha256:" in output, output
    digest = json.loads((tmp_path / "m").read_text())["containerimage.digest"]
    for each in "ab":
        reply = registry.request(
            "HEAD", f"/v2/{tag}/manifests/{each}", headers={"Accept": f"{OCI_INDEX}, {OCI_MANIFEST}"}
        )
        assert reply.headers["Docker-Content-Digest"] == digest
    docker("rmi", "-f", f"{name}:a", f"{name}:b")
    assert said(docker("run", "--rm", f"{name}:a")).endswith("pushed\n")
    docker("rmi", "-f", f"{name}:a")


def test_to_a_registry_or_to_nothing_at_all(buildx: Building, docker: Client, registry: Registry, tag: str) -> None:
    """`type=registry` pushes the image; `type=cacheonly` runs the steps, and there is no image."""
    name = f"{registry.address}/{tag}:kept"
    buildx.write("RUN echo for no image")
    told(buildx("build", "-o", f"type=registry,name={name}", "."))
    assert registry.request("HEAD", f"/v2/{tag}/manifests/kept", headers={"Accept": OCI_INDEX}).status == 200
    docker("rmi", "-f", name)
    before = said(docker("images", "-aq", "--no-trunc"))
    output = told(buildx("build", "--no-cache", "-t", tag, "-o", "type=cacheonly", "."))
    assert " for no image\n" in output, output
    assert docker("inspect", tag).returncode == 1
    assert said(docker("images", "-aq", "--no-trunc")) == before


def test_a_push_that_fails_is_told(buildx: Building) -> None:
    buildx.write("RUN true")
    output = told(buildx("build", "--push", "-t", "localhost:1/x", "."), 1)
    assert "connection refused" in output.lower(), output


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ("compression=zstd", ["+gzip", "+zstd"]),
        ("compression=zstd,compression-level=9,force-compression=true", ["+zstd", "+zstd"]),
        ("compression=uncompressed,force-compression=true", ["", ""]),
        ("compression=gzip,compression-level=9", ["+gzip", "+gzip"]),
    ],
)
def test_compression(
    buildx: Building, docker: Client, registry: Registry, tag: str, options: str, kinds: list[str]
) -> None:
    """Layers of the base keep theirs unless it is forced; the image runs from here, and from the registry."""
    name = f"{registry.address}/{tag}"
    buildx.write("RUN echo squeezed > /f", 'CMD ["cat", "/f"]')
    told(buildx("build", "-o", f"type=image,name={name},push=true,{options}", "."))
    assert said(docker("run", "--rm", name)) == "squeezed\n"
    layers = manifest_of(registry, tag, "latest")["layers"]
    assert [each["mediaType"] for each in layers] == [f"{LAYER}{kind}" for kind in kinds]
    docker("rmi", "-f", name)
    assert said(docker("run", "--rm", name)).endswith("squeezed\n")
    docker("rmi", "-f", name)


def test_docker_media_types(buildx: Building, docker: Client, registry: Registry, tag: str) -> None:
    name = f"{registry.address}/{tag}"
    buildx.write("RUN true > /f")
    told(buildx("build", "--provenance=false", "-o", f"type=image,name={name},push=true,oci-mediatypes=false", "."))
    reply = registry.request(
        "GET",
        f"/v2/{tag}/manifests/latest",
        headers={"Accept": "application/vnd.docker.distribution.manifest.v2+json"},
    )
    found = json.loads(reply.body)
    assert found["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json"
    assert found["config"]["mediaType"] == "application/vnd.docker.container.image.v1+json"
    assert {each["mediaType"] for each in found["layers"]} == {"application/vnd.docker.image.rootfs.diff.tar.gzip"}
    docker("rmi", "-f", name)


def test_docker_media_types_of_zstd(buildx: Building, docker: Client, registry: Registry, tag: str) -> None:
    """The image runs from here, and from the registry."""
    name = f"{registry.address}/{tag}"
    buildx.write("RUN echo squeezed > /f", 'CMD ["cat", "/f"]')
    form = "oci-mediatypes=false,compression=zstd,force-compression=true"
    told(buildx("build", "--provenance=false", "-o", f"type=image,name={name},push=true,{form}", "."))
    for _ in range(2):
        assert said(docker("run", "--rm", name)).endswith("squeezed\n")
        docker("rmi", "-f", name)


def test_annotations(buildx: Building, tmp_path: Path) -> None:
    buildx.write("RUN true > /f")
    layout = tmp_path / "layout"
    annotations = ("--annotation", "a=one", "--annotation", "manifest-descriptor:b=two")
    told(buildx("build", *annotations, "-o", f"type=oci,dest={layout},tar=false", "."))
    index = json.loads((layout / "index.json").read_bytes())
    assert document(layout, index["manifests"][-1]["digest"])["annotations"] == {"a": "one"}
    assert index["manifests"][-1]["annotations"]["b"] == "two"


def test_files_that_tell_of_the_result(buildx: Building, docker: Client, tag: str, tmp_path: Path) -> None:
    buildx.write("RUN true")
    files = "--iidfile", str(tmp_path / "id"), "--metadata-file", str(tmp_path / "metadata")
    told(buildx("build", "-t", tag, *files, "."))
    metadata = json.loads((tmp_path / "metadata").read_text())
    id = said(docker("inspect", "-f", "{{.Id}}", tag)).strip()
    assert (tmp_path / "id").read_text() == id == metadata["containerimage.digest"]
    assert metadata["containerimage.descriptor"]["digest"] == id
    assert metadata["image.name"] == f"docker.io/library/{tag}:latest"


@pytest.mark.parametrize("rewritten", [True, False])
def test_two_builds_of_one_source_give_one_digest(buildx: Building, tmp_path: Path, rewritten: bool) -> None:
    """With SOURCE_DATE_EPOCH and rewrite-timestamp; without them the times of files and of steps differ."""
    buildx.write("COPY . /c", "RUN mkdir /made && date +%N > /dev/null && echo x > /made/f")
    (buildx.place / "file").write_text("x")
    digests = set()
    for number in range(2):
        layout = tmp_path / str(number)
        options = f"type=oci,dest={layout},tar=false" + (",rewrite-timestamp=true" if rewritten else "")
        epoch = ("--build-arg", "SOURCE_DATE_EPOCH=1500000000") if rewritten else ()
        os.utime(buildx.place / "file", (1600000000 + number,) * 2)  # as in another checkout
        told(buildx("build", "--no-cache", *epoch, "-o", options, "."))
        index = json.loads((layout / "index.json").read_bytes())
        digests.add(index["manifests"][0]["digest"])
        if rewritten:
            manifest = document(layout, index["manifests"][0]["digest"])
            config = document(layout, manifest["config"]["digest"])
            assert config["created"] == "2017-07-14T02:40:00Z"
            layer = (layout / "blobs" / manifest["layers"][-1]["digest"].replace(":", "/")).read_bytes()
            assert {member.mtime for member in files_of(layer).values()} == {1500000000}
    assert len(digests) == (1 if rewritten else 2)


def test_an_image_with_times_set_back_runs(buildx: Building, docker: Client, tag: str) -> None:
    buildx.write("RUN echo x > /f", 'CMD ["stat", "-c", "%Y", "/f"]')
    epoch = ("--build-arg", "SOURCE_DATE_EPOCH=1500000000")
    told(buildx("build", *epoch, "-o", f"type=image,name={tag},rewrite-timestamp=true", "."))
    assert said(docker("run", "--rm", tag)) == "1500000000\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("type=image,name=x,compression=estargz", "estargz"),
        ("type=image,name=x,compression=lzma", "unsupported layer compression type lzma"),
        ("type=image,name=x,compression=gzip,compression-level=77", "invalid compression level 77"),
        ("type=image,name=x,push=maybe", "non-bool value"),
        ("type=image,name=x,nothing-that-is-known=1", "nothing-that-is-known"),
        ("type=image,name=UPPER", "lowercase"),
        ("type=made-up", "made-up"),
    ],
)
def test_what_cannot_be_is_refused_before_the_build(buildx: Building, options: str, words: str) -> None:
    buildx.write("RUN echo never")
    output = told(buildx("build", "-o", options, "."), 1)
    assert words in output, output
    assert "RUN echo never" not in output


@pytest.fixture
def two(buildx: Building) -> Building:
    """A build for two platforms, that runs nothing."""
    (buildx.place / "Dockerfile").write_text("FROM scratch\nARG TARGETARCH\nCOPY $TARGETARCH /arch\nCOPY same /same\n")
    for name in ("amd64", "arm64", "same"):
        (buildx.place / name).write_text(name)
    return buildx


PLATFORMS = ("--platform", "linux/amd64,linux/arm64")


def test_several_platforms_are_one_index(two: Building, registry: Registry, docker: Client, tag: str) -> None:
    name = f"{registry.address}/{tag}"
    told(two("build", *PLATFORMS, "-t", name, "--push", "."))
    index = of(registry, tag, "latest")
    machines = [each["platform"]["architecture"] for each in index["manifests"]]
    assert machines == ["amd64", "arm64", "unknown", "unknown"]
    about = [each["annotations"]["vnd.docker.reference.digest"] for each in index["manifests"][2:]]
    assert about == [each["digest"] for each in index["manifests"][:2]]
    for each in index["manifests"][:2]:
        config = of(registry, tag, each["digest"])["config"]
        body = registry.request("GET", f"/v2/{tag}/blobs/{config['digest']}").body
        assert json.loads(body)["architecture"] == each["platform"]["architecture"]
    docker("rmi", "-f", name)


def test_one_platform_as_if_there_were_several(two: Building, tmp_path: Path) -> None:
    multi = ("--build-arg", "BUILDKIT_MULTI_PLATFORM=1", "--provenance=false")
    told(two("build", *multi, "--platform", "linux/arm64", "-o", f"type=oci,dest={tmp_path}/l,tar=false", "."))
    index = json.loads((tmp_path / "l" / "index.json").read_bytes())
    (entry,) = document(tmp_path / "l", index["manifests"][0]["digest"])["manifests"]
    assert entry["platform"] == {"architecture": "arm64", "os": "linux"}
    told(two("build", *multi, "-o", str(tmp_path / "out"), "."))
    (machine,) = (tmp_path / "out").iterdir()
    assert machine.name.startswith("linux_")


def test_the_files_of_several_platforms(two: Building, tmp_path: Path) -> None:
    """Each in a directory of its own, or all in one where they do not differ."""
    told(two("build", *PLATFORMS, "-o", str(tmp_path / "out"), "."))
    for machine in ("amd64", "arm64"):
        assert (tmp_path / "out" / f"linux_{machine}" / "arch").read_text() == machine
    told(two("build", *PLATFORMS, "-o", f"type=tar,dest={tmp_path}/t", "."))
    assert "linux_arm64/arch" in files_of((tmp_path / "t").read_bytes())
    output = told(two("build", *PLATFORMS, "-o", f"type=local,dest={tmp_path}/one,platform-split=false", "."), 1)
    assert "cannot overwrite arch from linux/amd64 with linux/arm64" in output, output
    output = told(two("build", *PLATFORMS, "-o", f"type=docker,dest={tmp_path}/d", "."), 1)
    assert "exporting manifest lists" in output, output


def test_a_part_of_the_files(buildx: Building, tmp_path: Path) -> None:
    buildx.write("FROM scratch", "COPY --from=0 /etc /a/etc")
    told(buildx("build", "-o", f"type=local,dest={tmp_path}/out,src=/a/etc", "."))
    assert (tmp_path / "out" / "passwd").exists()
    output = told(buildx("build", "-o", f"type=local,dest={tmp_path}/out,src=/nowhere", "."), 1)
    assert "no such file or directory" in output, output
