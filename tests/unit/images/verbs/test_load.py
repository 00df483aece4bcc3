"""Loading archives: both formats, in every dress, and hostile ones; nothing is left of what is refused."""

import bz2
import gzip
import json
import lzma
import os
import pathlib
import tarfile
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.daemon.images import platform
from engine.daemon.images.layers import comparing
from engine.daemon.images.layers import store as layerstore
from engine.daemon.images.verbs import history, remove
from engine.daemon.images.verbs import load as loading
from engine.daemon.tar import compression
from engine.daemon.tar import reader as tar
from engine.errors import EngineError, Invalid, SystemFailure
from tests.unit.images import hostile, made
from tests.unit.images.made import MadeImage, archive, directory, files_below, layout, link, member

NAMED = {"io.containerd.image.name": "docker.io/library/busybox:1"}


@pytest.fixture
def image():
    return MadeImage(archive(directory("bin"), member("bin/sh", b"sh")), archive(member("b", b"2")))


class Pipe(hostile.Pipe):
    """In pieces that are no multiple of anything."""

    def __init__(self, data: bytes):
        super().__init__(data, 701)


def load(store, data):
    """The images, and the lines without those of progress."""
    lines = []
    images = loading.load(store, Pipe(data), lines.append)
    return images, [line for line in lines if "progressDetail" not in line]


def leftovers(store):
    root = pathlib.Path(store.layer_root).parent
    return files_below(root / "blobs/sha256") | files_below(root / "layers") | files_below(root / "tmp")


@pytest.mark.parametrize("dress", [bytes, gzip.compress])
@pytest.mark.parametrize("form", ["docker-archive", "layout"])
def test_both_formats_are_loaded_plain_and_compressed(store, image, form, dress):
    data = layout(image, NAMED) if form == "layout" else made.docker_archive(image, ["busybox:1"])
    (found,), lines = load(store, dress(data))
    assert lines == [{"stream": "Loaded image: busybox:1\n"}]
    assert found.repo_tags == ("busybox:1",)
    assert found.diff_ids == [made.digest(layer) for layer in image.layers]
    assert (pathlib.Path(store.layer_root, found.layers[0]) / "bin/sh").read_bytes() == b"sh"
    assert store.find("busybox:1") == found


def test_a_layout_keeps_the_images_own_digest(store, image):
    (found,), _ = load(store, layout(image, NAMED))
    assert found.id == image.digest


def test_an_image_without_a_manifest_gets_one_and_keeps_its_config_byte_for_byte(store, image):
    (found,), _ = load(store, made.docker_archive(image, ["a:1"]))
    manifest = json.loads(store.content.read(found.id, 10000))
    assert manifest["config"]["digest"] == made.digest(image.config)
    assert [layer["digest"] for layer in manifest["layers"]] == [made.digest(layer) for layer in image.layers]
    assert {layer["mediaType"] for layer in manifest["layers"]} == {made.OCI + "layer.v1.tar"}


def test_layers_that_are_links_to_another_ones_are_found(store):
    layer = archive(member("a", b""))
    image = MadeImage(layer, archive(member("b", b"")), layer)
    (found,), _ = load(store, made.docker_archive(image, ["a:1"], layer_links=True))
    # The same directory is not put under itself: where it stands uppermost is what counts.
    assert len(found.layers) == 2 and len(found.diff_ids) == 3
    assert (pathlib.Path(store.layer_root, found.layers[1]) / "a").exists()


def test_several_names_and_images_without_a_name(store, image):
    (found,), lines = load(store, made.docker_archive(image, ["a:1", "b/c:2"]))
    assert set(found.repo_tags) == {"a:1", "b/c:2"}
    assert len(lines) == 2
    (nameless,), lines = load(store, layout(image))
    assert lines == [{"stream": f"Loaded image ID: {nameless.id}\n"}]


def test_a_bare_tag_of_skopeo_names_nothing(store, image):
    (found,), _ = load(store, layout(image, {"org.opencontainers.image.ref.name": "latest"}))
    assert found.names == ()
    (found,), _ = load(store, layout(image, {"org.opencontainers.image.ref.name": "quay.io/x:2"}))
    assert found.repo_tags == ("quay.io/x:2",)


FORGED = "a@sha256:" + "0" * 64


@pytest.mark.parametrize("form", ["docker-archive", "layout", "oldest"])
def test_no_archive_gives_an_image_the_digest_of_another(store, image, form):
    data = {
        "docker-archive": lambda: made.docker_archive(image, [FORGED]),
        "layout": lambda: layout(image, {"io.containerd.image.name": "docker.io/library/" + FORGED}),
        "oldest": lambda: archive(
            member("1/json", b"{}"),
            member("1/layer.tar", image.layers[0]),
            member("repositories", json.dumps({FORGED: {"1": "1"}}).encode()),
        ),
    }[form]()
    with pytest.raises(Invalid, match="invalid tag"):
        load(store, data)
    assert not leftovers(store)


def test_an_image_may_go_by_its_own_digest(store, image):
    (found,), _ = load(store, layout(image, {"io.containerd.image.name": f"docker.io/library/a@{image.digest}"}))
    assert store.find(f"a@{image.digest}") == found


def test_of_an_index_with_only_one_platform_in_the_archive_that_one_is_taken(store, image):
    mine = image.entry(architecture=platform.host().architecture)
    listed = made.index(MadeImage(archive(), architecture="s390x").entry(architecture="s390x"), mine)
    entry = made.part(made.OCI + "index.v1+json", listed, annotations=NAMED)
    blobs = [*image.blobs.values(), image.manifest, listed]
    files = [member(f"blobs/sha256/{made.digest(blob)[7:]}", blob) for blob in blobs]
    (found,), _ = load(store, archive(member("index.json", made.index(entry)), *files))
    assert (found.id, found.manifest) == (made.digest(listed), image.digest)


def test_what_the_archive_has_beside_its_images_does_not_stay(store, image):
    load(store, layout(image, NAMED, more=[("blobs/sha256/" + "0" * 64, b"junk"), ("junk", b"more junk")]))
    held = files_below(pathlib.Path(store.layer_root).parent / "blobs/sha256")
    assert held == {made.digest(blob)[7:] for blob in (*image.blobs.values(), image.manifest)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"garbage", "unexpected EOF"),
        (b"", "unrecognized image format"),
        (archive(member("x", b"")), "unrecognized image format"),
        (archive(member("manifest.json", b"{}")), r"invalid manifest\.json"),
        (archive(member("manifest.json", b"[5]")), r"invalid manifest\.json"),
        (archive(member("manifest.json", b"}, {")), r"invalid manifest\.json"),
        (archive(member("manifest.json", b'[{"Config":"x.json"}]')), "'x.json' is missing"),
        (archive(member("manifest.json", b'[{"Config":"../../../../etc/passwd"}]')), "is missing"),
        (archive(member("manifest.json", b'[{"Config":"x","Layers":[1]}]')), "of the wrong type"),
        (archive(member("index.json", b"[" * 100_000)), r"invalid index\.json"),
        (archive(member("index.json", b"{}")), "invalid index"),
        (archive(member("index.json", b" " * (5 << 20))), "larger than"),
        (archive(link("manifest.json", "manifest.json")), "too many links"),
        (archive(member("manifest.json", type=tarfile.SYMTYPE, linkname="/etc/passwd")), "unrecognized"),
        (archive(member("manifest.json", type=tarfile.CHRTYPE)), "not a regular file"),
    ],
)
def test_what_is_no_archive_of_images_is_refused_and_leaves_nothing(store, data, message):
    with pytest.raises(Invalid, match=message):
        load(store, data)
    assert leftovers(store) == set()


@pytest.mark.parametrize("lie", ["layer", "config", "manifest", "diff id"])
def test_a_blob_that_is_not_what_its_name_says_is_refused_and_leaves_nothing(store, image, lie):
    if lie == "diff id":
        evil = MadeImage(archive(member("evil", b"")), archive())
        image.config = evil.config
        data = made.docker_archive(image, ["a:1"])
    else:
        wrong = {"layer": image.packed[0], "config": image.config, "manifest": image.manifest}[lie]
        image.lies[made.digest(wrong)] = b"x" * len(wrong)
        data = layout(image, NAMED)
    with pytest.raises(EngineError):
        load(store, data)
    assert leftovers(store) == set()


@pytest.mark.parametrize("dress", [bytes, gzip.compress])
def test_layers_and_archives_may_be_followed_by_zeros(store, image, monkeypatch, dress):
    monkeypatch.setattr(tar, "_MOST_TRAILING", 1 << 20)
    padded = MadeImage(image.layers[0] + bytes(3 << 20))
    assert load(store, dress(layout(padded, NAMED) + bytes(3 << 20)))[0][0].diff_ids == [made.digest(padded.layers[0])]
    for wrong in (layout(MadeImage(image.layers[1] + b"1" * (3 << 20)), NAMED), layout(image) + b"1" * (3 << 20)):
        with pytest.raises(Invalid, match="has data after the end of its archive"):
            load(store, dress(wrong))


def test_a_stream_that_fails_leaves_nothing(store, image):
    class Broken(Pipe):
        def read(self, count):
            return super().read(count) or (_ for _ in ()).throw(ConnectionResetError())

    with pytest.raises(ConnectionResetError):
        loading.load(store, Broken(layout(image, NAMED)[:3000]), print)
    assert leftovers(store) == set()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_archive_is_loaded_or_refused_and_nothing_half_stays(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("store")
    store = made.store(root)
    image = MadeImage(archive(directory("bin"), member("bin/sh", b"sh" * 300)))
    whole = bytearray(data.draw(st.sampled_from([layout(image, NAMED), made.docker_archive(image, ["a:1"])])))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        load(store, bytes(whole))
    except EngineError:
        assert {name for name in leftovers(store) if not store.all()} == set()
    assert all(os.path.isdir(os.path.join(store.layer_root, name)) for found in store.all() for name in found.layers)


def test_the_oldest_form_gets_a_config_of_today(store, image):
    (found,), lines = load(store, hostile.legacy(image))
    assert lines == [{"stream": "Loaded image: busybox:1\n"}]
    assert found.diff_ids == [made.digest(layer) for layer in image.layers]
    assert found.config["config"]["Cmd"] == ["/bin/sh"]
    assert [step["created_by"] for step in found.config["history"]] == ["/bin/sh -c step 0", "/bin/sh -c step 1"]
    assert not {"id", "parent"} & set(found.config)


def test_an_index_in_an_index_is_followed(store, image):
    (found,), _ = load(store, hostile.nested(image))
    here = store.platforms(found)
    assert [one.config["architecture"] for one in here] == [platform.host().architecture, "s390x"]
    assert here[0].manifest == image.digest


@pytest.mark.parametrize("dress", [bz2.compress, lzma.compress])
def test_the_other_dresses(store, image, dress):
    assert load(store, dress(layout(image, NAMED)))[0][0].id == image.digest


def test_layers_are_unpacked_as_they_come_and_once(store, image, monkeypatch):
    """Whatever stands in front of them: the blob is not read again."""
    opened = []
    whole = store.content.open
    monkeypatch.setattr(store.content, "open", lambda digest: opened.append(digest) or whole(digest))
    load(store, layout(image, NAMED))
    assert not {made.digest(layer) for layer in image.packed} & set(opened)


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_hashed_as_a_blob_is_not_hashed_again_as_a_layer(store, monkeypatch, packed):
    image = MadeImage(archive(directory("a"), member("a/b", b"x" * 300_000)))
    amounts = []

    class Counting(layerstore.Hashing):
        def readinto(self, buffer):
            amounts.append(super().readinto(buffer))
            return amounts[-1]

    monkeypatch.setattr(layerstore, "Hashing", Counting)
    ((loaded,), _) = load(store, layout(image, NAMED) if packed else made.docker_archive(image, ["a:b"]))
    assert loaded.diff_ids == [made.digest(image.layers[0])]
    assert sum(amounts) == (len(image.layers[0]) if packed else 0)


def test_what_is_here_is_passed_over_in_the_archive(store, image, monkeypatch):
    load(store, layout(image, NAMED))
    monkeypatch.setattr(store.layers, "unpack", lambda *_: pytest.fail("unpacked again"))
    (found,), lines = load(store, layout(image, {"io.containerd.image.name": "docker.io/library/other:1"}))
    assert found.repo_tags == ("busybox:1", "other:1")
    assert lines == [{"stream": "Loaded image: other:1\n"}]


def test_a_stream_may_unpack_to_so_much_and_beyond_that_to_so_many_times_its_size(store, monkeypatch):
    monkeypatch.setattr(compression, "FAIR_BYTES", 1 << 20)
    zeros = archive(member("zeros", bytes(4 << 20)))
    with pytest.raises(Invalid, match="unpack to over 200 times as many"):
        load(store, gzip.compress(zeros))
    # The same as a layer: the archive is sound, its layer is not.
    with pytest.raises(Invalid, match="unpack to over 200 times as many"):
        load(store, layout(MadeImage(zeros), NAMED))
    assert leftovers(store) == set()
    honest = archive(member("random", os.urandom(1 << 20)), member("zeros", bytes(4 << 20)))
    assert load(store, layout(MadeImage(honest), NAMED))[0]


def test_names_and_images_have_a_limit(store):
    entries = b"[" + b",".join([b'{"Config":"c"}'] * 1001) + b"]"
    with pytest.raises(Invalid, match="more than 1000 images"):
        load(store, archive(member("manifest.json", entries)))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"x": "y"}, "invalid repositories"),
        ({"x": {"1": 5}}, "invalid repositories"),
        ({"x": {"1": "a"}}, "'a/json' is missing"),
        ({"UP": {"1": "a"}}, "must be lowercase"),
        ({"x": {"~": "a"}}, "invalid tag format"),
    ],
)
def test_what_is_wrong_with_the_oldest_form_is_said(store, document, message):
    with pytest.raises(Invalid, match=message):
        load(store, archive(member("repositories", json.dumps(document).encode())))
    assert leftovers(store) == set()


@pytest.mark.parametrize(
    "config",
    [
        {"Env": ["A=\0"]},
        {"Cmd": ["\0"]},
        {"WorkingDir": "/a\0b"},
        {"User": "\0"},
        {"Volumes": {"/\0": {}}},
        {"Shell": ["\0"]},
    ],
)
def test_a_config_with_what_no_system_call_takes_is_refused(store, config):
    with pytest.raises(Invalid, match="holds a NUL byte"):
        load(store, layout(MadeImage(archive(member("a", b"1")), config=config), NAMED))
    assert leftovers(store) == set()


def test_what_an_archive_leaves_is_removed_while_no_image_can_be_added(store, monkeypatch):
    """Else another load of the same blobs could hold them between the look and the removal."""
    free = []
    real = store.content.remove

    def remove(digest):
        other = threading.Thread(target=lambda: free.append(store.changing.acquire(blocking=False)))
        other.start()
        other.join()
        return real(digest)

    monkeypatch.setattr(store.content, "remove", remove)
    with pytest.raises(Invalid, match="unrecognized image format"):
        load(store, archive(member("a", b"1")))
    assert free == [False]


def test_an_image_changes_nothing_in_the_layers_of_another(store):
    """Whoever puts a known layer over one of his own does not get to say whose the known one's directories are."""
    shared = archive(member("etc/file", b"1"))
    first = load(store, layout(MadeImage(shared), NAMED))[0][0]
    place = os.path.join(store.layer_root, first.layers[-1], "etc")
    before = os.stat(place).st_mode
    hostile_one = MadeImage(archive(directory("etc", mode=0o777)), shared)
    second = load(store, layout(hostile_one, {"io.containerd.image.name": "docker.io/library/hostile:1"}))[0][0]
    assert second.layers[-1] == first.layers[-1]
    assert os.stat(place).st_mode == before


def listed(image, layers, *files):
    """A docker-archive of these entries of Layers, which has only the files that are given."""
    manifest = [{"Config": "config.json", "RepoTags": ["other:1"], "Layers": layers}]
    return archive(
        member("config.json", image.config),
        *(member(name, data) for name, data in files),
        member("manifest.json", json.dumps(manifest).encode()),
    )


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["a.tar", "b.tar"], [("a.tar", b""), ("b.tar", b"")]),
        (["", ""], []),
        (["gone.tar", "/b.tar"], [("b.tar", b"")]),
        (["a.tar", "b.tar"], [("a.tar", archive(member("evil"))), ("b.tar", b"no tar at all")]),
    ],
    ids=["empty", "unnamed", "missing", "others"],
)
def test_a_known_layer_keeps_its_own_blob_whatever_comes_in_its_place(store, image, names, files):
    load(store, layout(image, NAMED))
    above = MadeImage(*image.layers, archive(member("c", b"3")))
    (found,), _ = load(store, listed(above, [*names, "c.tar"], *files, ("c.tar", above.layers[2])))
    parts = json.loads(store.content.read(found.id, 10000))["layers"]
    assert [part["digest"] for part in parts] == [*map(made.digest, image.packed), made.digest(above.layers[2])]
    held = files_below(pathlib.Path(store.layer_root).parent / "blobs/sha256")
    assert not {made.digest(data)[7:] for name, data in files} & held
    assert all(store.content.has(part["digest"], part["size"]) for part in parts)


def test_an_archive_says_again_which_blob_is_a_known_layer(store, image):
    """Of two blobs of one layer, that of the archive is taken."""
    (first,), _ = load(store, made.docker_archive(image, ["a:1"]))
    load(store, layout(image, NAMED))
    (again,), _ = load(store, made.docker_archive(image, ["a:2"]))
    assert again.id == first.id


@pytest.mark.parametrize("name", ["", "a.tar", "b.tar"])
def test_what_is_missing_of_a_layer_that_is_not_here_is_refused(store, image, name):
    with pytest.raises(Invalid, match=f"'{name}' is missing"):
        load(store, listed(image, [name, "c.tar"], ("a.tar", b""), ("c.tar", image.layers[1])))
    assert leftovers(store) == set()


def test_a_layout_with_empty_or_missing_blobs_is_completed_from_the_store(store, image):
    load(store, layout(image, NAMED))
    other = {"io.containerd.image.name": "docker.io/library/other:1"}
    image.lies[made.digest(image.packed[0])] = b""
    assert load(store, layout(image, other))[0][0].id == image.digest
    del image.blobs[made.digest(image.packed[1])]
    assert load(store, layout(image, other))[0][0].id == image.digest
    unknown = MadeImage(archive(member("new", b"1")))
    unknown.lies[made.digest(unknown.packed[0])] = b""
    with pytest.raises(EngineError, match="not found"):
        load(store, layout(unknown, other))


@pytest.mark.parametrize("here", [False, True], ids=["new blob", "known blob"])
def test_a_layout_with_other_contents_for_a_known_layer_is_refused(store, image, here):
    load(store, layout(image, NAMED))
    evil = MadeImage(archive(member("evil", b"1")))
    if here:
        load(store, layout(evil, {"io.containerd.image.name": "docker.io/library/evil:1"}))
    before = leftovers(store)
    swapped = MadeImage(image.layers[0])
    swapped.document["layers"] = evil.document["layers"]
    swapped.manifest = json.dumps(swapped.document).encode()
    swapped.blobs = {made.digest(data): data for data in (*evil.packed, swapped.config)}
    comparing._same.clear()  # as in a daemon that has just started
    with pytest.raises(Invalid, match="is another layer than"):
        load(store, layout(swapped, {"io.containerd.image.name": "docker.io/library/swapped:1"}))
    assert leftovers(store) == before


def test_a_blob_that_an_image_has_for_the_layer_is_not_read_again(store, image, monkeypatch):
    load(store, layout(image, NAMED))
    comparing._same.clear()
    opened = []
    whole = store.content.open
    monkeypatch.setattr(store.content, "open", lambda digest: opened.append(digest) or whole(digest))
    load(store, layout(image, {"io.containerd.image.name": "docker.io/library/other:1"}))
    blobs = [made.digest(layer) for layer in image.packed]
    assert [opened.count(blob) for blob in blobs] == [1, 1], "it is held against the archive's, and not unpacked"


@pytest.mark.parametrize("form", ["docker-archive", "layout"])
@pytest.mark.parametrize(
    ("data", "words"), [(b"{}", "unexpected EOF"), (b"junk" * 999, "archive/tar: invalid tar header")]
)
def test_an_image_with_a_layer_that_is_no_tar_is_kept_and_cannot_be_run(store, image, form, data, words):
    broken = MadeImage(image.layers[0], data)
    whole = layout(broken, NAMED) if form == "layout" else made.docker_archive(broken, ["busybox:1"])
    (found,), lines = load(store, whole)
    text = f'apply layer error for "docker.io/library/busybox:1": failed to extract layer {made.digest(data)}: {words}'
    assert lines == [
        {"stream": "Loaded image: busybox:1\n"},
        {"stream": f"Error unpacking image busybox:1: {text}\n"},
    ]
    parts = json.loads(store.content.read(found.manifest, 10000))["layers"]
    assert [store.content.has(part["digest"], part["size"]) for part in parts] == [True, True]
    assert found.layers == () and not found.is_unpacked and history.history(store, found) == []
    with pytest.raises(SystemFailure, match="failed to extract a layer"):
        found.check_unpacked()
    (good,), lines = load(store, layout(image, {"io.containerd.image.name": "docker.io/library/good:1"}))
    assert good.is_unpacked and len(lines) == 1
    remove.remove(store, "busybox:1", True, True, lambda _: ())
    remove.remove(store, "good:1", True, True, lambda _: ())
    assert leftovers(store) == set()


def test_a_layer_that_is_no_tar_and_another_one_than_the_image_says_is_refused(store, image):
    lie = MadeImage(image.layers[0], b"{}")
    lie.document["layers"][1] = made.part(made.OCI + "layer.v1.tar", b"[]")
    lie.blobs[made.digest(b"[]")] = b"[]"
    lie.manifest = json.dumps(lie.document).encode()
    with pytest.raises(Invalid, match="is another layer than"):
        load(store, layout(lie, NAMED))
    assert leftovers(store) == set()
