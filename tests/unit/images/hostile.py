"""Hostile archives: valid ones with parts exchanged, at the choice of whoever decides (hypothesis, atheris).

What is changed are the parts that mean something (a name, a kind, a link, a size, a field of a document), so that
most of what comes out gets past the first check; and what is asked of the store that is given one.
"""

import bz2
import contextlib
import copy
import gzip
import io
import json
import lzma
import os
import pathlib
import tarfile
from collections.abc import Sequence
from typing import Protocol

from engine.daemon.images import platform
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.layers import unpack
from engine.daemon.images.verbs import load, remove
from engine.daemon.tar import trees
from engine.errors import EngineError, NotFound
from tests.unit.images import made
from tests.unit.images.made import MadeImage, archive, directory, link, member, symlink

NAMED = {"io.containerd.image.name": "docker.io/library/busybox:1"}
NAMES = (
    "../../escape",
    "/etc/escape",
    "a/../../escape",
    "./b",
    "bin",
    "bin/sh",
    "bin/sh/x",
    "loop/x",
    "out/x",
    ".wh.bin",
    ".wh..wh..opq",
    ".wh..",
    ".wh.",
    "",
    ".",
    "/",
    "x" * 300,
    "manifest.json",
    "index.json",
    "repositories",
    "d\udcff",
    "a\0b",
)
TARGETS = ("/etc", "..", "../../..", "/", ".", "loop", "bin/sh", "/proc/self/root", "", "manifest.json", "x" * 5000)
KINDS = (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"S", b"x", b"g", b"L", b"K", b"V", b"\0")
SIZES = (0, 1, 511, 512, 1 << 20, 8 << 30, 1 << 40, (1 << 62) + 1, -1)
VALUES = (
    None,
    0,
    -1,
    1 << 70,
    1.5,
    "",
    "x",
    "sha256:" + "0" * 64,
    "sha256:../../escape",
    [],
    {},
    [[]],
    True,
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "../../../../etc/passwd",
    "a" * 5000,
    {"digest": 5},
    [None] * 200,
)
PAX = (
    {"path": "../../escape"},
    {"linkpath": "/etc"},
    {"size": "99999999999"},
    {"uid": "-1"},
    {"mtime": "1e99"},
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
    {"GNU.sparse.map": "0,1,2", "GNU.sparse.size": "9"},
    {"SCHILY.xattr.trusted.overlay.redirect": "/etc"},
    {"SCHILY.xattr.user.x": "y" * 70000},
)


class Choices(Protocol):
    """Who decides."""

    def number(self, low: int, high: int) -> int:
        """One of low to high."""

    def data(self, most: int) -> bytes:
        """Any bytes."""


def one(choices: Choices, of: Sequence) -> object:
    """One of several."""
    return of[choices.number(0, len(of) - 1)]


def layer(choices: Choices) -> bytes:
    """A layer's tar: sound members, then as many strange ones as are chosen."""
    members = [directory("bin"), member("bin/sh", b"sh" * 40), symlink("loop", "loop"), symlink("out", "/etc")]
    members += [link("bin/ash", "bin/sh"), member("bin/.wh.gone", b"")]
    for _ in range(choices.number(0, 4)):
        members.insert(choices.number(0, len(members)), strange(choices))
    return damaged(choices, archive(*members, form=one(choices, (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))))


def strange(choices: Choices) -> tuple[tarfile.TarInfo, bytes]:
    """One member of any kind with any name."""
    kind = one(choices, KINDS)
    data = choices.data(600) if kind in (b"0", b"x", b"g", b"L", b"K", b"S") else b""
    fields = {"type": kind, "linkname": one(choices, TARGETS), "mode": one(choices, (0o644, 0o7777, 0))}
    if kind in (b"3", b"4"):
        # Numbers of no device that a test machine has.
        fields |= {"devmajor": one(choices, (0, 250, 4095)), "devminor": one(choices, (0, 77, 1 << 20))}
    if choices.number(0, 3) == 0:
        fields["pax_headers"] = one(choices, PAX)
    return member(one(choices, NAMES).replace("\0", "\x01"), data, **fields)


def damaged(choices: Choices, data: bytes) -> bytes:
    """The tar with a header's field changed under a sum that fits, cut off, or with some other bytes; or as it was."""
    what = choices.number(0, 7)
    whole = bytearray(data)
    block = choices.number(0, max(len(whole) // 512 - 1, 0)) * 512
    if what == 0:
        return bytes(whole[: choices.number(0, len(whole))])
    if what == 1 and len(whole) > block + 512:
        size = one(choices, SIZES)
        whole[block + 124 : block + 136] = (
            b"%011o\0" % size if 0 <= size < 1 << 33 else b"\x80" + bytes(3) + size.to_bytes(8, "big", signed=size < 0)
        )
        summed(whole, block)
    elif what == 2 and len(whole) > block + 512:
        place = choices.number(0, 511)
        some = choices.data(20)
        whole[block + place : block + place + len(some)] = some
        summed(whole, block)
    elif what == 3 and whole:
        place = choices.number(0, len(whole) - 1)
        some = choices.data(40)
        whole[place : place + len(some)] = some
    return bytes(whole)


def summed(whole: bytearray, block: int) -> None:
    """Give the header at this place the checksum that fits."""
    head = whole[block : block + 512]
    if len(head) == 512:
        whole[block + 148 : block + 156] = b"%06o\0 " % (sum(head) - sum(head[148:156]) + 256)


def document(choices: Choices, data: bytes) -> bytes:
    """A JSON document with some of its values exchanged."""
    try:
        value = json.loads(data)
    except ValueError:
        return data
    for _ in range(choices.number(1, 3)):
        _exchange(choices, value)
    return json.dumps(value).encode()


def _exchange(choices: Choices, value: object) -> None:
    for _ in range(6):
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if not keys:
            return
        key = one(choices, list(keys))
        if choices.number(0, 2) == 0 or not isinstance(value[key], dict | list):
            value[key] = copy.deepcopy(one(choices, VALUES))
            return
        value = value[key]


def images(choices: Choices) -> bytes:
    """An archive of images in any of the forms, with parts of it changed, in any dress."""
    image = MadeImage(layer(choices), archive(member("b", b"2")))
    form = choices.number(0, 3)
    if form == 0:
        data = made.docker_archive(image, ["busybox:1"], layer_links=True)
    elif form == 1:
        data = legacy(image)
    elif form == 2:
        data = nested(image)
    else:
        data = made.layout(image, NAMED)
    members = _members(data)
    for _ in range(choices.number(0, 4)):
        _change(choices, members)
    data = damaged(choices, archive(*members))
    return one(choices, (bytes, bytes, bytes, gzip.compress, bz2.compress, lzma.compress))(data)


def _members(data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return [(info, tar.extractfile(info).read() if info.isreg() else b"") for info in tar]


def _change(choices: Choices, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    place = choices.number(0, len(members) - 1) if members else 0
    what = choices.number(0, 6)
    if what == 0 or not members:
        members.insert(place, strange(choices))
        return
    info, data = members[place]
    if what == 1:
        del members[place]
    elif what == 2:
        members.append((info, data))
    elif what == 3:
        members.insert(0, members.pop(place))
    elif what == 4:
        members[place] = member(one(choices, NAMES).replace("\0", "\x01"), data)
    else:
        fresh = document(choices, data) if what == 5 else choices.data(300)
        # A blob is taken for what its digest says, so the name has to go with the change to get any further.
        name = info.name
        if name.startswith("blobs/") and choices.number(0, 1):
            name = f"blobs/sha256/{made.digest(fresh)[7:]}"
        members[place] = member(name, fresh)


def legacy(image: MadeImage) -> bytes:
    """What docker before 1.10 wrote: a directory for each layer, and no manifest.json."""
    members, parent = [], ""
    for number, data in enumerate(image.layers):
        name = f"{number + 1:064x}"
        its = {"id": name, "created": "2014-01-01T00:00:00Z", "architecture": "amd64", "os": "linux"}
        its |= {"config": {"Cmd": ["/bin/sh"]}, "container_config": {"Cmd": ["/bin/sh", "-c", f"step {number}"]}}
        its |= {"parent": parent} if parent else {}
        members += [
            directory(name),
            member(f"{name}/VERSION", b"1.0"),
            member(f"{name}/json", json.dumps(its).encode()),
        ]
        members.append(member(f"{name}/layer.tar", data))
        parent = name
    return archive(*members, member("repositories", json.dumps({"busybox": {"1": parent}}).encode()))


def nested(image: MadeImage) -> bytes:
    """An OCI layout whose index.json names an index that names an index, the host's platform among others."""
    inner = made.index(image.entry(architecture=platform.host().architecture))
    other = MadeImage(archive(member("other", b"1")), architecture="s390x")
    outer = made.index(made.part(made.OCI + "index.v1+json", inner), other.entry(architecture="s390x"))
    entry = made.part(made.OCI + "index.v1+json", outer, annotations=NAMED)
    blobs = [*image.blobs.values(), *other.blobs.values(), image.manifest, other.manifest, inner, outer]
    files = [member(f"blobs/sha256/{made.digest(blob)[7:]}", blob) for blob in blobs]
    return archive(*files, member("index.json", made.index(entry)), member("oci-layout", b"{}"))


# What is asked of whoever is given such an archive


class Pipe:
    """A stream that can only be read, a little at a time, as a request's body."""

    def __init__(self, data: bytes, most: int = 3000):
        self._file = io.BytesIO(data)
        self._most = most

    def read(self, count: int) -> bytes:
        """At most so many bytes."""
        return self._file.read(min(count, self._most))


def load_and_check(store: Catalogue, data: bytes) -> bool:
    """Load: AssertionError unless the store holds whole images, or nothing at all, and nothing was written elsewhere.

    Any failure but an `EngineError` passes through. The store is empty before and after; True when it was loaded.
    """
    root = pathlib.Path(store.layer_root).parent
    try:
        load.load(store, Pipe(data), lambda line: None)
        loaded = True
    except EngineError:
        loaded = False
    assert not os.listdir(root / "tmp"), os.listdir(root / "tmp")
    for image in store.all():
        for one in store.platforms(image):
            assert all(os.path.isdir(os.path.join(store.layer_root, name)) for name in one.layers)
            assert store.content.has(one.manifest) and store.content.has(one.id)
        for name in (*image.repo_tags, image.id):
            with contextlib.suppress(NotFound):  # the image may have gone with its last name
                remove.remove(store, name, True, False, lambda identity: ())
    left = made.files_below(root / "blobs/sha256") | made.files_below(root / "layers")
    assert left == set(), left
    assert set(os.listdir(root.parent)) == {root.name}, os.listdir(root.parent)
    return loaded


def unpack_and_check(root: pathlib.Path, data: bytes) -> None:
    """Unpack as a layer in `root`, which is empty: AssertionError when anything appears beside it."""
    (root / "beside").write_text("untouched")
    (root / "layer").mkdir()
    fd = os.open(root / "layer", os.O_RDONLY)
    try:
        with contextlib.suppress(EngineError):
            unpack.unpack(io.BufferedReader(io.BytesIO(data)), fd, overlay=os.geteuid() == 0)
    finally:
        os.close(fd)
    assert sorted(os.listdir(root)) == ["beside", "layer"]
    assert (root / "beside").read_text() == "untouched"
    above = os.open(root, os.O_RDONLY)
    try:
        trees.remove_tree(above, "layer")
    finally:
        os.close(above)
    (root / "beside").unlink()
