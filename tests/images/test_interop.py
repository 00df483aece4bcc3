"""Archives between this engine and other people's: what one saves the other loads, with the same id and contents.

An image's config names the digest of every layer's files, and all engines check them as they load: the same config
digest is the same contents.
"""

import io
import json
import os
import shutil
import subprocess
import tarfile

import pytest

from tests.harness import rootfs
from tests.harness.others import OTHERS, Podman, need
from tests.images.conftest import Layout, listing, three_layers

pytestmark = pytest.mark.root
TAR = {"Content-Type": "application/x-tar"}


@pytest.fixture(scope="module")
def umoci_layout(tmp_path_factory):
    """An image of three layers that umoci made: links, modes, owners, deletions."""
    need("umoci", "skopeo")
    layout = Layout(tmp_path_factory.mktemp("interop") / "layout")
    for step in (three_layers()[0], take_away, three_layers()[2]):
        layout.step(step)
    return layout


def take_away(tree):
    """A step without a file in a directory's place: neither dockerd nor podman unpacks what umoci makes of that."""
    shutil.rmtree(tree / "gone")


@pytest.fixture(scope="module")
def archive(umoci_layout, tmp_path_factory):
    """The same as skopeo's docker-archive of two names."""
    path = tmp_path_factory.mktemp("interop") / "a.tar"
    umoci_layout.copy(f"docker-archive:{path}:example.org/made:1", "--additional-tag", "example.org/made:2")
    return path.read_bytes()


@pytest.fixture(scope="module")
def config(archive):
    """The digest of the image's config."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        entry = json.load(tar.extractfile("manifest.json"))[0]
    return "sha256:" + entry["Config"].removesuffix(".json")


@pytest.fixture(scope="module", params=OTHERS, ids=lambda other: other.name)
def other(request, world):
    """dockerd, then podman."""
    with request.param(world.directory() / "o") as running:
        yield running


@pytest.fixture
def emptied(daemon):
    """The daemon, without the images of the test afterwards."""
    yield daemon
    for image in daemon.request("GET", "/images/json").json():
        if "busybox:latest" not in (image["RepoTags"] or ()):
            daemon.request("DELETE", f"/images/{image['Id']}?force=1", checked=False)


def load(daemon, data):
    """What was loaded, as the lines say it."""
    answer = daemon.request("POST", "/images/load", data, TAR)
    lines = [line.get("stream") or line for line in answer.lines]
    assert all(isinstance(line, str) for line in lines), lines
    return sorted(line.strip().partition(": ")[2] for line in lines)


def save(daemon, *names):
    answer = daemon.request("GET", "/images/get?" + "&".join(f"names={name}" for name in names), checked=False)
    assert answer.status == 200
    return answer.body


def config_of(daemon, name, data=None):
    """The config digest of one of our images, out of its own archive."""
    with tarfile.open(fileobj=io.BytesIO(data or save(daemon, name))) as tar:
        entries = json.load(tar.extractfile("manifest.json"))
    return {"sha256:" + entry["Config"].rpartition("/")[2] for entry in entries}


def test_what_skopeo_writes_is_loaded_by_both_and_what_we_save_of_it_too(other, emptied, archive, config):
    assert load(emptied, archive) == ["example.org/made:1", "example.org/made:2"]
    saved = save(emptied, "example.org/made")
    assert other.load(saved) == ["example.org/made:1", "example.org/made:2"]
    assert other.identity("example.org/made:1") == other.identity("example.org/made:2") == config
    other.forget("example.org/made:1", "example.org/made:2")


def test_what_the_other_one_saves_is_loaded_here(other, emptied, archive, config):
    other.load(archive)
    assert load(emptied, other.save("example.org/made:1")) == ["example.org/made:1"]
    assert config_of(emptied, "example.org/made:1") == {config}
    # And from here to there once more, so that nothing is lost on the way that only shows later.
    saved = save(emptied, "example.org/made:1")
    other.forget("example.org/made:1", "example.org/made:2")
    other.load(saved)
    assert other.identity("example.org/made:1") == config
    other.forget("example.org/made:1")


def test_several_images_of_one_archive_go_both_ways(other, emptied, archive, config):
    second = emptied.import_image(small(), "example.org/more:1")
    load(emptied, archive)
    other.load(save(emptied, "example.org/made:1", "example.org/more:1"))
    both = other.save(
        "example.org/made:1",
        "example.org/more:1",
        options=("--multi-image-archive",) if isinstance(other, Podman) else (),
    )
    identity = other.identity("example.org/more:1")
    other.forget("example.org/made:1", "example.org/more:1")
    emptied.request("DELETE", f"/images/{second}?force=1")
    assert load(emptied, both) == ["example.org/made:1", "example.org/more:1"]
    assert config_of(emptied, "example.org/made:1") == {config}
    assert config_of(emptied, "example.org/more:1") == {identity}


def test_a_layer_that_is_kept_as_a_tar_goes_both_ways(other, emptied):
    """The other one's archive and ours have the same files: the digest of the layer is in the config."""
    emptied.import_image(rootfs.archive([("random", 0o644, os.urandom(3_000_000))]), "example.org/random:1")
    saved = save(emptied, "example.org/random:1")
    config = config_of(emptied, "example.org/random:1", saved)
    assert layer_types(saved) == ["application/vnd.oci.image.layer.v1.tar"]
    other.load(saved)
    assert {other.identity("example.org/random:1")} == config
    back = other.save("example.org/random:1")
    other.forget("example.org/random:1")
    emptied.request("DELETE", "/images/example.org/random:1?force=1")
    assert load(emptied, back) == ["example.org/random:1"]
    assert config_of(emptied, "example.org/random:1") == config


def layer_types(data):
    """The media types of the layers of an archive's only image."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        (entry,) = json.load(tar.extractfile("index.json"))["manifests"]
        manifest = json.load(tar.extractfile("blobs/sha256/" + entry["digest"].partition(":")[2]))
    return [layer["mediaType"] for layer in manifest["layers"]]


def small():
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        info = tarfile.TarInfo("hello")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    return sink.getvalue()


def test_an_oci_archive_of_podman_is_loaded_with_its_name(emptied, archive, world):
    with Podman(world.directory() / "o") as podman:
        podman.load(archive)
        data = podman.save("example.org/made:1", options=("--format", "oci-archive"))
    assert load(emptied, data) == ["example.org/made:1"]
    # podman writes a config of its own in that form, with the same files.
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        target = json.load(tar.extractfile("index.json"))["manifests"][0]["digest"]
    assert emptied.request("GET", "/images/example.org/made:1/json").json()["Id"] == target
    load(emptied, archive)
    layers = [
        emptied.request("GET", f"/images/{name}/json").json()["RootFS"] for name in (target, "example.org/made:1")
    ]
    assert layers[0] == layers[1]


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_skopeo_reads_what_we_save_in_both_of_its_forms(emptied, archive, config, tmp_path, kind):
    load(emptied, archive)
    (tmp_path / "ours.tar").write_bytes(save(emptied, "example.org/made:1"))
    target = tmp_path / "there"
    subprocess.run(
        ["skopeo", "copy", "--quiet", f"{kind}:{tmp_path}/ours.tar", f"dir:{target}"], check=True, capture_output=True
    )
    manifest = json.loads((target / "manifest.json").read_text())
    assert manifest["config"]["digest"] == config


def test_umoci_unpacks_what_we_save(emptied, umoci_layout, archive, tmp_path):
    """It is a layout with the digests that skopeo's copy of it had, and the same tree."""
    load(emptied, archive)
    (tmp_path / "layout").mkdir()
    subprocess.run(["tar", "-xC", tmp_path / "layout"], input=save(emptied, "example.org/made:1"), check=True)
    command = ["umoci", "unpack", "--image", f"{tmp_path}/layout:1", str(tmp_path / "bundle")]
    subprocess.run(command, check=True, capture_output=True)
    umoci_layout.step(lambda tree: None)
    assert listing(tmp_path / "bundle/rootfs") == listing(umoci_layout.tree)
