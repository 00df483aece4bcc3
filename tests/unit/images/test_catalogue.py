"""The image store: importing, finding by every name, removing as dockerd does, and what a restart finds."""

import bz2
import gzip
import io
import pathlib
import re

import pytest

from engine.daemon.containers.record import State
from engine.daemon.images.verbs import import_ as importing
from engine.daemon.images.verbs import listing, remove
from engine.daemon.images.verbs import load as loading
from engine.errors import Conflict, Invalid, NotFound
from tests.harness import parts
from tests.unit.images import made
from tests.unit.images.made import MadeImage, archive, files_below, layout, member

TREE = archive(member("file", b"contents"))


def load(store, name, *layers, **config):
    image = MadeImage(*(archive(member(layer, b"")) for layer in layers), config=config or None)
    annotations = {"io.containerd.image.name": name} if name else {}
    return loading.load(store, io.BytesIO(layout(image, annotations)), lambda line: None)[0]


def import_(store, data=TREE, repo="a", tag="", message="", changes=(), platform=None):
    return importing.import_rootfs(store, io.BytesIO(data), repo, tag, message, changes, platform)


def container(image, running=False):
    return parts.container(image_id=image.id, layers=image.layers, state=State("running" if running else "exited"))


def using(*containers):
    return lambda image_id: [one for one in containers if one.image_id == image_id]


NOBODY = using()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_a_root_filesystem_becomes_an_image_whatever_it_is_packed_in(store, pack):
    image = import_(store, pack(TREE), changes=['CMD ["x"]', "ENV A=1"])
    assert (image.repo_tags, image.config["config"]) == (("a:latest",), {"Cmd": ["x"], "Env": ["A=1"]})
    assert image.diff_ids == [made.digest(TREE)]
    assert image.config["history"][0]["comment"] == "Imported from -"
    assert (pathlib.Path(store.layer_root, *image.layers) / "file").read_bytes() == b"contents"
    blob = next(digest for digest, _ in _blobs(store, image) if store.content.open(digest).read(2) == b"\x1f\x8b")
    assert gzip.decompress(store.content.read(blob, 10_000)) == TREE


def _blobs(store, image):
    from engine.daemon.store import images as table

    with store.database.reading() as connection:
        return table.image_blobs(connection, image.id)


def test_a_gzip_stream_is_kept_byte_for_byte(store):
    packed = gzip.compress(TREE, mtime=1)
    assert made.digest(packed) in dict(_blobs(store, import_(store, packed)))


def test_two_imports_of_one_tree_share_their_layer(store):
    assert import_(store).layers == import_(store, repo="b").layers


def test_an_import_may_have_a_tag_a_message_a_platform_and_no_name(store):
    image = import_(store, repo="x/y", tag="1", message="mine", platform="linux/arm/v6")
    assert (image.repo_tags, image.config["architecture"], image.config["variant"]) == (("x/y:1",), "arm", "v6")
    assert listing.inspect_json(store, image)["Comment"] == "mine"
    assert import_(store, repo="").names == ()


FORGED = {"repo": "a@sha256:" + "0" * 64}


@pytest.mark.parametrize(
    "options", [{"repo": "BAD"}, FORGED, {"tag": "b@d"}, {"changes": ["RUN x"]}, {"platform": "?"}]
)
def test_an_import_with_a_wrong_parameter_reads_nothing(store, options):
    class Unread:
        def read(self, count):
            raise AssertionError("read")

    with pytest.raises(Invalid):
        importing.import_rootfs(
            store,
            Unread(),
            *({"repo": "a", "tag": "", "message": "", "changes": (), "platform": None} | options).values(),
        )


def test_an_import_of_garbage_leaves_nothing(store):
    with pytest.raises(Invalid, match="unexpected EOF"):
        import_(store, b"garbage")
    root = pathlib.Path(store.layer_root).parent
    assert files_below(root / "layers") | files_below(root / "tmp") | files_below(root / "blobs/sha256") == set()


def test_an_image_is_found_by_every_name_it_has(store):
    image = load(store, "docker.io/library/busybox:latest", "a")
    digits = image.id[7:]
    for name in (
        "busybox",
        "busybox:latest",
        "docker.io/library/busybox",
        image.id,
        digits,
        digits[:12],
        digits[:4],
        f"sha256:{digits[:8]}",
        f"busybox@{image.id}",
        f"busybox:other@{image.id}",
    ):
        assert store.find(name).id == image.id


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nope", "nope:latest"),
        ("nope:1", "nope:1"),
        ("rec/b:1", "rec/b:1"),
        ("localhost:1/x", "localhost:1/x:latest"),
        ("sha256:" + "0" * 64, None),
        ("BAD", None),
    ],
)
def test_what_is_not_there_is_told_in_dockers_words(store, name, shown):
    with pytest.raises((NotFound, Invalid)) as failed:
        store.find(name)
    if shown:
        assert str(failed.value) == f"No such image: {shown}"


def test_a_digest_of_another_repository_is_not_found(store):
    image = load(store, "docker.io/library/busybox:latest", "a")
    with pytest.raises(NotFound):
        store.find(f"other@{image.id}")


def test_an_image_for_another_platform_than_asked_is_not_found(store):
    load(store, "docker.io/library/busybox:latest", "a")
    assert store.find("busybox", "linux/amd64")
    with pytest.raises(NotFound, match=r"does not provide the specified platform \(linux/arm64\)"):
        store.find("busybox", "linux/arm64")


# Removing


def test_the_last_name_takes_the_image_with_it(store):
    image = load(store, "docker.io/rec/imp:1", "a")
    assert remove.remove(store, "rec/imp:1", False, False, NOBODY) == [{"Untagged": "rec/imp:1"}, {"Deleted": image.id}]
    root = pathlib.Path(store.layer_root).parent
    assert files_below(root / "layers") | files_below(root / "blobs/sha256") == set()
    with pytest.raises(NotFound):
        store.find(image.id)


def test_one_name_of_several_is_untagged_even_in_use(store):
    image = load(store, "docker.io/library/busybox:latest", "a")
    load(store, "docker.io/library/busybox:glibc", "a")
    assert remove.remove(store, "busybox:latest", False, False, using(container(image))) == [
        {"Untagged": "busybox:latest"}
    ]
    assert store.find("busybox:glibc").id == image.id


def test_removing_by_id_takes_every_tag_when_it_is_forced(store):
    image = load(store, "docker.io/library/busybox:latest", "a")
    load(store, "docker.io/library/busybox:glibc", "a")
    with pytest.raises(Conflict, match=r"\(must be forced\) - image is referenced in multiple repositories"):
        remove.remove(store, image.id[7:19], False, False, NOBODY)
    removed = remove.remove(store, image.id[7:19], True, False, NOBODY)
    assert removed == [{"Untagged": "busybox:glibc"}, {"Untagged": "busybox:latest"}, {"Deleted": image.id}]


def test_conflicts_are_told_in_dockers_words(store):
    image = load(store, "docker.io/library/busybox:latest", "a")
    short, held = image.id[7:19], "c" * 12
    stopped, running = using(container(image)), using(container(image, running=True))
    cases = [
        (
            "busybox",
            False,
            stopped,
            f"conflict: unable to delete busybox:latest (must be forced) - container {held} is "
            f"using its referenced image {short}",
        ),
        (
            short,
            False,
            stopped,
            f"conflict: unable to delete {short} (must be forced) - image is being used by stopped container {held}",
        ),
        (
            short,
            True,
            running,
            f"conflict: unable to delete {short} (cannot be forced) - image is being used by running container {held}",
        ),
    ]
    for ref, force, used_by, message in cases:
        with pytest.raises(Conflict) as failed:
            remove.remove(store, ref, force, False, used_by)
        assert str(failed.value) == message
    load(store, "docker.io/other/name:1", "a")
    with pytest.raises(Conflict, match=f"unable to delete {short} .must be forced. - image is referenced in multiple"):
        remove.remove(store, short, False, False, NOBODY)
    assert len(store.find(image.id).names) == 2


def test_force_in_use_takes_the_name_and_leaves_the_image(store):
    image = load(store, "docker.io/library/busybox:latest", "a")
    assert remove.remove(store, "busybox", True, False, using(container(image))) == [{"Untagged": "busybox:latest"}]
    assert store.find(image.id).names == ()


def test_layers_of_a_deleted_image_stay_for_as_long_as_a_container_stands_on_them(store):
    image = load(store, "docker.io/library/busybox:latest", "a")
    path = pathlib.Path(store.layer_root, *image.layers)
    used_by = using(container(image))
    assert remove.remove(store, image.id, True, False, used_by)[-1] == {"Deleted": image.id}
    assert store.all() == []
    store.release(used_by)
    assert path.is_dir()
    store.release(NOBODY)
    assert not path.exists()


def test_layers_and_blobs_of_another_image_stay(store):
    first = load(store, "docker.io/library/a:1", "shared", "a")
    second = load(store, "docker.io/library/b:1", "shared", "b")
    assert first.layers[0] == second.layers[0]
    remove.remove(store, "a:1", False, False, NOBODY)
    assert {path.name for path in pathlib.Path(store.layer_root).iterdir()} == set(second.layers)
    assert all(store.content.has(digest) for digest, _ in _blobs(store, second))


def test_a_pinned_layer_is_not_collected(store):
    with store.session() as session:
        layer = session.unpack(io.BytesIO(TREE))
        store.layers.collect()
        assert pathlib.Path(store.layer_root, str(layer.number), "file").exists()
    assert files_below(pathlib.Path(store.layer_root)) == set()


def test_directories_that_a_layer_only_implies_are_as_the_layer_below_has_them(store):
    below = archive(made.directory("tmp", 0o1777))
    above = archive(member("tmp/x", b""), member("new/y", b""))
    image = MadeImage(below, above)
    (found,) = loading.load(store, io.BytesIO(layout(image)), lambda line: None)
    upper = pathlib.Path(store.layer_root, found.layers[1])
    assert (upper / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert (upper / "new").stat().st_mode & 0o7777 == 0o755


# Listing


def test_lists_have_every_field_and_newest_first(store):
    load(store, "docker.io/library/old:1", "a", Labels={"k": "v"})
    newer = import_(store, repo="new")
    shown = listing.images_json(store, {}, shared_size=True, manifests=True, used_by=using(container(newer)))
    assert [image["RepoTags"] for image in shown] == [["new:latest"], ["old:1"]]
    assert [image["Containers"] for image in shown] == [1, 0]
    assert shown[1]["Labels"] == {"k": "v"}
    assert shown[1]["Created"] == 1767323045
    assert shown[0]["RepoDigests"] == [f"new@{newer.id}"]
    assert shown[0]["Size"] == newer.size > 0
    assert shown[0]["SharedSize"] == 0
    assert shown[0]["Manifests"][0]["ImageData"]["Containers"] == ["c" * 64]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"reference": ["busybox"]}, {"busybox:1"}),
        ({"reference": ["busy*:1"]}, {"busybox:1"}),
        ({"reference": ["*/*"]}, {"rec/img:2"}),
        ({"reference": ["*"]}, {"busybox:1"}),
        ({"label": ["k"]}, {"busybox:1"}),
        ({"label": ["k=v"]}, {"busybox:1"}),
        ({"label": ["k=w"]}, set()),
        ({"label!": ["k"]}, {"rec/img:2", ""}),
        ({"dangling": ["true"]}, {""}),
        ({"dangling": ["0"]}, {"busybox:1", "rec/img:2"}),
        ({"before": ["rec/img:2"]}, {"busybox:1", ""}),
        ({"since": ["busybox:1"]}, {"rec/img:2"}),
        ({"until": ["2026-06-01"]}, {"busybox:1", ""}),
        ({"until": ["1h"], "label": ["k"]}, {"busybox:1"}),
    ],
)
def test_filters_choose(store, filters, expected):
    load(store, "docker.io/library/busybox:1", "a", Labels={"k": "v"})
    load(store, "", "b")
    import_(store, repo="rec/img", tag="2")
    assert {"".join(image["RepoTags"]) for image in listing.images_json(store, filters)} == expected


@pytest.mark.parametrize("filters", [{"dangling": ["maybe"]}, {"until": ["soon"]}, {"unknown": ["x"]}])
def test_a_wrong_filter_is_refused(store, filters):
    with pytest.raises(Invalid):
        listing.images_json(store, filters)


def test_a_wrong_filter_is_shown_as_docker_shows_it(store):
    with pytest.raises(Invalid, match=re.escape("invalid filter 'dangling=[TRUE x]'")):
        listing.images_json(store, {"dangling": ("TRUE", "x")})
    assert listing.images_json(store, {"dangling": ("maybe", "1")}) == []


def test_inspect_has_what_docker_has(store):
    image = import_(store, repo="busybox", changes=['CMD ["/bin/sh"]'])
    shown = listing.inspect_json(store, image)
    assert set(shown) == {
        "Id",
        "RepoTags",
        "RepoDigests",
        "Comment",
        "Created",
        "Config",
        "Architecture",
        "Os",
        "Size",
        "RootFS",
        "Metadata",
        "Descriptor",
    }
    assert shown["Descriptor"]["digest"] == shown["Id"]
    assert shown["Metadata"]["LastTagTime"].endswith("Z")


def test_images_are_there_after_a_restart(tmp_path):
    store = made.store(tmp_path)
    image = import_(store)
    assert made.store(tmp_path).find("a") == image
    assert made.store(tmp_path).count() == 1
