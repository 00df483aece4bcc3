"""Images of every kind that other people's tools write: forms, compressions, members, depths."""

import hashlib
import json
import os
import stat
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.layers import storage
from engine.daemon.images.layers.merged import within
from engine.daemon.images.verbs import pull as pulling
from engine.daemon.store import images as table
from engine.daemon.store.database import Database
from tests.harness.parts import settings
from tests.images.conftest import Layout, listing, need, registries
from tests.unit.images import fakeregistry, made
from tests.unit.images.made import MadeImage, archive, member

pytestmark = pytest.mark.root

CAPABILITY = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
LONG = "long-" + "n" * 190
MEGABYTE = 1 << 20


def fill_lowest(tree: Path) -> None:
    """What GNU tar's own format can say: links, long names, devices; and what is to be hidden above."""
    (tree / "tool").write_bytes(b"tool" * 1000)
    (tree / "tool").chmod(0o4755)
    os.link(tree / "tool", tree / "linked")
    deep = tree / LONG / LONG
    deep.mkdir(parents=True)
    (deep / "f").write_text("deep")
    os.link(deep / "f", deep / LONG)
    os.symlink("x" * 300, tree / "to-far-away")
    os.mknod(tree / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(tree / "disk", stat.S_IFBLK | 0o640, os.makedev(259, 300))
    os.mkfifo(tree / "fifo", 0o600)
    for name in ("gone", "opaque", "replaced"):
        (tree / name).mkdir()
        (tree / name / "old").write_text("x")
    (tree / "file-gone").write_text("x")


def fill_middle(tree: Path) -> None:
    """What takes PAX headers: attributes, large owners, holes."""
    (tree / "ping").write_bytes(b"\x7fELF" * 100)
    os.setxattr(tree / "ping", "security.capability", CAPABILITY)
    (tree / "noted").write_text("x")
    os.setxattr(tree / "noted", "user.note", b"\x00\xff any bytes")
    os.chown(tree / "noted", 3_000_000, 4_000_000)
    with open(tree / "sparse", "wb") as file:
        for place in range(1, 40, 4):
            file.seek(place * MEGABYTE // 4)
            file.write(b"data")
        file.truncate(12 * MEGABYTE)
    (tree / "hole").touch()
    os.truncate(tree / "hole", 3 * MEGABYTE)
    (tree / ("ünïcode " + LONG)).write_text("x")
    (tree / "empty").touch()


def fill_highest(tree: Path) -> None:
    """Whiteouts, as files of their names."""
    (tree / ".wh.gone").touch()
    (tree / ".wh.file-gone").touch()
    (tree / "opaque").mkdir()
    (tree / "opaque/.wh..wh..opq").touch()
    (tree / "opaque/new").write_text("y")
    (tree / ".wh.replaced").touch()


# What fills a layer, and how GNU tar packs it; an empty layer is one, too. (umoci knows PAX's holes alone.)
LAYERS = (
    (fill_lowest, ("--format=gnu",)),
    (fill_middle, ("--format=posix", "--sparse", "--xattrs", "--xattrs-include=*")),
    (None, ("--files-from=/dev/null",)),
    (fill_highest, ("--format=ustar",)),
)


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> Layout:
    """The layout that umoci makes of those layers, and in `tree` what it unpacks of it."""
    need("umoci", "skopeo")
    directory = tmp_path_factory.mktemp("rich")
    layout = Layout(directory / "layout")
    for number, (fill, options) in enumerate(LAYERS):
        tree = directory / str(number)
        tree.mkdir()
        names = []
        if fill:
            fill(tree)
            names = [name.name for name in tree.iterdir()]
        packed = directory / f"{number}.tar"
        subprocess.run(["tar", "--create", f"--file={packed}", "-C", tree, *options, *names], check=True)
        layout._umoci("raw", "add-layer", "--image", f"{layout.path}:made", str(packed))
    layout._umoci("unpack", "--image", f"{layout.path}:made", str(layout.tree.parent))
    return layout


def seen(tree: Path) -> dict[str, tuple]:
    """`listing`, and of each file its contents, attributes and device."""
    found = {}
    for name, facts in listing(tree).items():
        path = tree / name
        state = path.lstat()
        attributes = {
            key: os.getxattr(path, key, follow_symlinks=False)
            for key in os.listxattr(path, follow_symlinks=False)
            if not key.startswith("trusted.overlay.") and key != "user.rootlesscontainers"
        }
        data = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(state.st_mode) else ""
        found[name] = (*facts, data, attributes, state.st_rdev)
    return found


@pytest.fixture
def registry() -> Iterator[fakeregistry.FakeRegistry]:
    """A registry in a thread of the test."""
    with fakeregistry.serving() as running:
        yield running


def pull(store, address: str, tag: str):
    return pulling.pull(store, f"{address}/made", tag, None, None, lambda line: None)


def root_of(store, image) -> dict[str, tuple]:
    """What a container of the image would see."""
    return within(store.layer_root, image.layers, lambda root: seen(Path(f"/proc/self/fd/{root}/.")))


@pytest.fixture(params=[storage.COPY, storage.OVERLAY])
def either_store(request, tmp_path):
    """An image store, with copies and with overlays."""
    found = storage.choose(str(_made(tmp_path / "probe")))
    assert found == storage.OVERLAY, "the tests need a temporary directory that can carry an overlay"
    root = _made(tmp_path / "root")
    (root / "storage").write_text(request.param + "\n")
    return Catalogue(Database(str(root / "engine.db"), table.SCHEMA), str(root), settings(), request.param)


def _made(path: Path) -> Path:
    (path / "tmp").mkdir(parents=True)
    return path


# Tag → how skopeo is asked for it, and the end of its layers' media types.
FORMS = {
    "oci": ((), ".v1.tar+gzip"),
    "docker": (("--format", "v2s2"), ".tar.gzip"),
    "zstd": (("--dest-compress", "--dest-compress-format", "zstd"), ".v1.tar+zstd"),
    "plain": (("--dest-decompress",), ".v1.tar"),
}


@pytest.fixture(scope="module")
def forms(rich, tmp_path_factory) -> Iterator[str]:
    """The address of a registry that has `made` in each of those forms, by tag."""
    directory = tmp_path_factory.mktemp("forms")
    with registries(directory) as make:
        address = make()
        for form, (options, _) in FORMS.items():
            # By way of a directory: given to a registry, what it has already in another compression stays in that.
            rich.copy(f"dir:{directory}/{form}", *options)
            if form == "plain":
                push(address, directory / form, form)
                continue
            command = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"dir:{directory}/{form}"]
            subprocess.run([*command, f"docker://{address}/made:{form}"], check=True, capture_output=True)
        yield address


def push(address: str, directory: Path, tag: str) -> None:
    """Push what skopeo wrote into a directory, as it is: skopeo itself compresses all that it pushes."""
    for path in directory.iterdir():
        if path.name not in ("manifest.json", "version"):
            data = path.read_bytes()
            start = urllib.request.Request(f"http://{address}/v2/made/blobs/uploads/", method="POST")
            with urllib.request.urlopen(start) as answer:
                place = answer.headers["Location"] + f"&digest={made.digest(data)}"
            kind = {"Content-Type": "application/octet-stream"}
            urllib.request.urlopen(urllib.request.Request(place, data, kind, method="PUT")).close()
    manifest = (directory / "manifest.json").read_bytes()
    kind = {"Content-Type": json.loads(manifest).get("mediaType", f"{made.OCI}manifest.v1+json")}
    target = f"http://{address}/v2/made/manifests/{tag}"
    urllib.request.urlopen(urllib.request.Request(target, manifest, kind, method="PUT")).close()


def test_every_form_and_compression_gives_the_tree_that_umoci_unpacks(either_store, forms, rich):
    expected = seen(rich.tree)
    assert expected["linked"] == expected["tool"]
    images = {form: pull(either_store, forms, form) for form in FORMS}
    # The layers themselves are the same ones, so they are there once.
    assert len({image.layers for image in images.values()}) == 1
    assert root_of(either_store, images["oci"]) == expected
    for form, (_, ending) in FORMS.items():
        manifest = json.loads(either_store.content.read(images[form].manifest, MEGABYTE))
        assert all(part["mediaType"].endswith(ending) for part in manifest["layers"]), form


@pytest.mark.parametrize("form", ["zstd", "plain"])
def test_a_form_by_itself_gives_the_same(either_store, forms, rich, form):
    assert root_of(either_store, pull(either_store, forms, form)) == seen(rich.tree)


def test_holes_stay_holes(either_store, forms):
    image = pull(either_store, forms, "oci")
    layer = Path(either_store.layer_root, image.layers[1])
    assert (layer / "sparse").stat().st_size == 12 * MEGABYTE
    assert (layer / "sparse").stat().st_blocks * 512 < MEGABYTE
    assert (layer / "hole").stat().st_blocks == 0


@pytest.mark.parametrize("count", [1, 127])
def test_images_of_few_and_many_layers(either_store, registry, count):
    whole = MadeImage(*(archive(member(f"f{number}", b"x"), member("last", b"%d" % number)) for number in range(count)))
    registry.add(whole, "1")
    image = pull(either_store, registry.address, "1")
    assert (image.id, len(image.layers)) == (whole.digest, count)
    names = within(either_store.layer_root, image.layers, lambda root: set(os.listdir(f"/proc/self/fd/{root}")))
    assert names == {f"f{number}" for number in range(count)} | {"last"}


def test_an_image_may_have_a_layer_more_than_once(either_store, registry):
    empty, one = archive(), archive(member("a", b"1"), member("b", b"1"))
    registry.add(MadeImage(empty, one, empty, archive(member("a", b"2"), member(".wh.b")), one, empty), "1")
    image = pull(either_store, registry.address, "1")
    assert len(image.config["rootfs"]["diff_ids"]) == 6
    found = within(either_store.layer_root, image.layers, lambda root: seen(Path(f"/proc/self/fd/{root}/.")))
    assert {name: facts[6] for name, facts in found.items()} == dict.fromkeys("ab", hashlib.sha256(b"1").hexdigest())


def test_of_an_index_that_skopeo_copied_each_platform_can_be_had(store, make_registry, rich, tmp_path):
    parts = []
    for architecture in ("amd64", "arm64", "s390x"):
        rich._umoci("config", "--image", f"{rich.path}:made", "--tag", architecture, "--architecture", architecture)
    index = json.loads((rich.path / "index.json").read_text())
    for entry in index["manifests"]:
        name = entry["annotations"]["org.opencontainers.image.ref.name"]
        if name != "made":
            parts.append({**entry, "annotations": {}, "platform": {"os": "linux", "architecture": name}})
    nested = made.index(*parts)
    (rich.path / "blobs/sha256" / made.digest(nested)[7:]).write_bytes(nested)
    entry = made.part(made.OCI + "index.v1+json", nested, annotations={"org.opencontainers.image.ref.name": "all"})
    (rich.path / "index.json").write_text(json.dumps({**index, "manifests": [*index["manifests"], entry]}))
    address = make_registry()
    command = ["skopeo", "copy", "--quiet", "--all", "--dest-tls-verify=false", f"oci:{rich.path}:all"]
    subprocess.run([*command, f"docker://{address}/made:all"], check=True, capture_output=True)
    for platform in ("linux/arm64", "linux/s390x", "linux/amd64"):
        image = pulling.pull(store, f"{address}/made", "all", platform, None, lambda line: None)
        assert (image.id, image.config["architecture"]) == (made.digest(nested), platform.partition("/")[2])
    assert len(store.platforms(image)) == 3
