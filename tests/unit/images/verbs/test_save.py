"""Saving: what stands in the archive, for whom, and in which order; and that it comes back as it was."""

import io
import json
import os
import tarfile

import pytest

from engine.daemon.images import platform
from engine.daemon.images.platform import Platform
from engine.daemon.images.verbs import load as loading
from engine.daemon.images.verbs import remove
from engine.daemon.images.verbs import save as saving
from engine.errors import Invalid, NotFound, SystemFailure
from tests.unit.images import made
from tests.unit.images.hostile import Pipe
from tests.unit.images.made import MadeImage, archive, directory, member

HOST = platform.host()
ARM = Platform("linux", "arm64") if HOST.architecture != "arm64" else Platform("linux", "amd64")


class File:
    """A sink that keeps everything, and counts what came from files."""

    def __init__(self):
        self.data = b""
        self.sent = 0

    def write_large(self, data):
        self.data += data

    def send_file(self, descriptor, count):
        self.data += os.pread(descriptor, count, 0)
        self.sent += count


def save(store, *names, platforms=()):
    sink = File()
    with saving.archive(store, names, platforms) as found:
        found.send(sink)
    return sink


def load(store, data):
    return loading.load(store, Pipe(data), lambda line: None)


def files(data):
    """name → bytes, in the archive's order."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}


@pytest.fixture
def image(store):
    """One image of two names, loaded."""
    one = MadeImage(archive(directory("bin"), member("bin/sh", b"sh")), archive(member("b", b"2")))
    load(store, made.layout(one, {"io.containerd.image.name": "docker.io/library/one:1"}))
    return one


def name(store, reference, image):
    """Another name for it."""
    load(store, made.layout(image, {"io.containerd.image.name": reference}))


def test_an_archive_is_a_layout_and_a_docker_archive_at_once(store, image):
    found = files(save(store, "one:1").data)
    index, (entry,) = json.loads(found["index.json"]), json.loads(found["manifest.json"])
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (target,) = index["manifests"]
    assert (target["digest"], target["size"]) == (image.digest, len(image.manifest))
    assert target["annotations"] == {
        "io.containerd.image.name": "docker.io/library/one:1",
        "org.opencontainers.image.ref.name": "1",
    }
    assert entry["RepoTags"] == ["one:1"]
    assert found[entry["Config"]] == image.config
    assert [found[layer] for layer in entry["Layers"]] == image.packed
    assert all(made.digest(data)[7:] == path[13:] for path, data in found.items() if path.startswith("blobs/"))
    assert set(found) - {"oci-layout", "index.json", "manifest.json"} == {
        f"blobs/sha256/{made.digest(blob)[7:]}" for blob in (*image.blobs.values(), image.manifest)
    }


def test_the_same_images_give_the_same_bytes_and_these_are_nobodys(store, image):
    data = save(store, "one:1").data
    assert save(store, "one:1").data == data
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert {(info.uid, info.gid, info.mtime) for info in tar} == {(0, 0, 0)}
    assert list(files(data))[:3] == ["oci-layout", "index.json", "manifest.json"]


def test_what_is_saved_is_loaded_with_the_digests_that_it_had(store, image, tmp_path):
    (tmp_path / "other").mkdir()
    (back,) = load(made.store(tmp_path / "other"), save(store, "one:1").data)
    assert (back.id, back.repo_tags) == (image.digest, ("one:1",))


def test_a_repository_is_all_of_its_tags_and_an_id_has_no_name(store, image):
    name(store, "docker.io/library/one:2", image)
    name(store, "docker.io/library/other:1", image)
    found = files(save(store, "one").data)
    assert json.loads(found["manifest.json"])[0]["RepoTags"] == ["one:1", "one:2"]
    assert len(json.loads(found["index.json"])["manifests"]) == 2
    for text in (image.digest, image.digest[7:], image.digest[7:19], f"one@{image.digest}"):
        found = files(save(store, text).data)
        assert json.loads(found["manifest.json"])[0]["RepoTags"] is None
        assert "annotations" not in json.loads(found["index.json"])["manifests"][0]


def test_several_images_share_their_blobs_in_the_archive(store, image):
    second = MadeImage(image.layers[0], config={"Cmd": ["other"]})
    name(store, "docker.io/library/two:1", second)
    found = files(save(store, "one:1", "two:1", "one:1").data)
    assert [entry["RepoTags"] for entry in json.loads(found["manifest.json"])] == [["one:1"], ["two:1"]]
    assert len(json.loads(found["index.json"])["manifests"]) == 2
    assert len([path for path in found if path.startswith("blobs/")]) == 6


@pytest.mark.parametrize(
    ("names", "error", "text"),
    [
        (["nope"], NotFound, "No such image: nope:latest"),
        (["one:1", "nope:2"], NotFound, "No such image: nope:2"),
        (["one"], None, ""),
        (["one:2"], NotFound, "No such image: one:2"),
        (["A:b"], Invalid, "must be lowercase"),
        (["0" * 64], NotFound, "No such image"),
    ],
)
def test_what_is_not_there_is_said_before_the_first_byte(store, image, names, error, text):
    if error is None:
        assert save(store, *names).data
        return
    with pytest.raises((NotFound, Invalid), match=text), saving.archive(store, names, ()):
        pytest.fail("an archive was begun")


def test_of_nothing_comes_an_archive_of_nothing(store):
    found = files(save(store).data)
    assert json.loads(found["manifest.json"]) == []


def test_large_blobs_are_sent_from_their_files_and_stay_while_they_are(store):
    big = MadeImage(archive(member("big", os.urandom(1_000_000))))
    load(store, made.layout(big, {"io.containerd.image.name": "docker.io/library/big:1"}))
    sink = File()
    with saving.archive(store, ["big:1"], ()) as found:
        remove.remove(store, "big:1", True, False, lambda identity: ())
        found.send(sink)
    assert sink.sent == len(big.packed[0])
    assert files(sink.data)[f"blobs/sha256/{made.digest(big.packed[0])[7:]}"] == big.packed[0]


def test_a_blob_that_a_disk_has_shortened_is_no_archive(store, image):
    with saving.archive(store, ["one:1"], ()) as found:
        os.truncate(store.content.path(made.digest(image.packed[0])), 5)
        with pytest.raises(SystemFailure, match="damaged"):
            found.send(File())


@pytest.fixture
def both(store):
    """An image for this host and for another kind of one, in one index: the two images, and the index's digest."""
    mine = MadeImage(archive(member("mine", b"1")), architecture=HOST.architecture)
    arm = MadeImage(archive(member("arm", b"2")), architecture=ARM.architecture)
    listed = made.index(
        mine.entry(architecture=HOST.architecture),
        arm.entry(architecture=ARM.architecture),
        MadeImage(archive(), architecture="s390x").entry(architecture="s390x"),
    )
    entry = made.part(made.OCI + "index.v1+json", listed, annotations={"io.containerd.image.name": "docker.io/x/m:1"})
    blobs = [*mine.blobs.values(), *arm.blobs.values(), mine.manifest, arm.manifest, listed]
    members = [member(f"blobs/sha256/{made.digest(blob)[7:]}", blob) for blob in blobs]
    data = archive(*members, member("index.json", made.index(entry)))
    load(store, data)
    return mine, arm, made.digest(listed), data


def test_every_platform_that_is_here_is_saved_with_the_index_of_all(store, both, tmp_path):
    mine, arm, digest, _ = both
    found = files(save(store, "x/m:1").data)
    (target,) = json.loads(found["index.json"])["manifests"]
    assert target["digest"] == digest
    assert {f"blobs/sha256/{image.digest[7:]}" for image in (mine, arm)} < set(found)
    # Who cannot read an index gets what this host would run.
    assert found[json.loads(found["manifest.json"])[0]["Config"]] == mine.config


def test_one_platform_is_saved_as_itself_and_none_of_the_other(store, both, tmp_path):
    mine, arm, _, _ = both
    for image, one in ((mine, HOST), (arm, ARM)):
        found = files(save(store, "x/m:1", platforms=[one]).data)
        (target,) = json.loads(found["index.json"])["manifests"]
        assert target["digest"] == image.digest
        assert len([path for path in found if path.startswith("blobs/")]) == 3
    with pytest.raises(NotFound, match=r"does not provide the specified platform \(linux/s390x\)"):
        save(store, "x/m:1", platforms=[Platform("linux", "s390x")])


def test_two_platforms_are_an_index_of_those_two(store, both, tmp_path):
    mine, arm, digest, _ = both
    found = files(save(store, "x/m:1", platforms=[HOST, ARM]).data)
    (target,) = json.loads(found["index.json"])["manifests"]
    assert target["digest"] != digest
    entries = json.loads(found[f"blobs/sha256/{target['digest'][7:]}"])["manifests"]
    assert [(entry["digest"], entry["platform"]["architecture"]) for entry in entries] == [
        (mine.digest, HOST.architecture),
        (arm.digest, ARM.architecture),
    ]


def test_of_an_archive_only_the_wanted_platform_is_loaded(both, tmp_path):
    _, arm, digest, data = both
    (tmp_path / "other").mkdir()
    store = made.store(tmp_path / "other")
    (image,) = loading.load(store, Pipe(data), lambda line: None, [ARM])
    assert (image.id, image.manifest) == (digest, arm.digest)
    assert [one.manifest for one in store.platforms(image)] == [arm.digest]
    with pytest.raises(NotFound, match="doesn't provide the requested platform"):
        loading.load(store, Pipe(data), lambda line: None, [Platform("linux", "s390x")])
