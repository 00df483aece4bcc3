"""Brings over the images that dockerd keeps in containerd's store, with the snapshotter overlayfs.

The store has the very documents and blobs of each image, so the image has the same id here, and is pushed as it was
pulled. Blobs are hard links to containerd's, and so are the files of layers, whose snapshots are of the form that the
engine's layers have. A blob's digest is compared; of a snapshot it is believed that its files are those of the layer,
as containerd does. Records are in bbolt, in the buckets of containerd's `metadata` and `snapshots/storage`.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator, Sequence

from engine.daemon.images import image as documents
from engine.daemon.images.archives.members import Bundle
from engine.daemon.images.image import Image
from engine.daemon.images.layers import comparing
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.reference import Reference, check_digest
from engine.daemon.images.verbs import load
from engine.daemon.jsontext import Object
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel import reasons
from engine.migrate.accounting import Telling
from engine.migrate.asked import DOCKERS
from engine.migrate.bolt import Bucket
from engine.migrate.cloning import clone
from engine.migrate.layeredimages import chains
from engine.migrate.newroot import Target
from engine.migrate.oldroot import Root

_META = "io.containerd.metadata.v1.bolt/meta.db"
_BLOBS = "io.containerd.content.v1.content/blobs"
_SNAPSHOTTER = "io.containerd.snapshotter.v1.overlayfs"
_NAMESPACE = b"moby"  # dockerd's
_VERSION = b"v1"
_DANGLING = "moby-dangling"
_MOST_IMAGES = 100_000
_CHUNK = 1 << 20
_CANNOT_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS})
OF_DOCKERD, OF_HOST = "containerd/daemon", "/var/lib/containerd"
"""Where the containerd that dockerd starts has its root, below dockerd's, and where the host's own has it."""


class Containerd(Root):
    """The root of a containerd. broken: names of images whose records are none, and why"""

    def __init__(self, path: str) -> None:
        """Raises NotFound."""
        super().__init__(path, "containerd", (_META,))
        self._snapshots: dict[str, str] | None = None
        self.broken: dict[str, Invalid] = {}

    def images(self) -> dict[str, list[str]]:
        """Digest of what names of dockerd's images point at → the names. Raises Invalid."""
        found: dict[str, list[str]] = {}
        try:
            with self.bolt(_META) as file:
                bucket = file.root.bucket(_VERSION, _NAMESPACE, b"images")
                for key, image in bucket.buckets() if bucket is not None else ():
                    try:
                        digest = _text(image.bucket(b"target"), b"digest")
                        check_digest(digest)
                    except Invalid as error:
                        self.broken[key.decode("utf-8", "replace")] = error
                        continue
                    names = found.setdefault(digest, [])
                    if not key.startswith(_DANGLING.encode()):
                        names.append(key.decode("utf-8", "replace"))
                    if len(found) > _MOST_IMAGES:
                        raise Invalid(f"there are more than {_MOST_IMAGES} images")
        except NotFound:
            return {}
        return found

    def snapshot(self, key: str) -> str:
        """The path of a snapshot's files: of a layer by its chain id, of a container by its id. Raises NotFound."""
        if self._snapshots is None:
            self._snapshots = self._places()
        if key not in self._snapshots:
            raise NotFound(f"there is no snapshot {key[:19]}")
        return self._snapshots[key]

    def _places(self) -> dict[str, str]:
        with self.bolt(_META) as file:
            bucket = file.root.bucket(_VERSION, _NAMESPACE, b"snapshots", b"overlayfs")
            names = {
                name: key.decode("utf-8", "replace")
                for key, one in (bucket.buckets() if bucket else ())
                if (name := one.get(b"name")) is not None
            }
        with self.bolt(f"{_SNAPSHOTTER}/metadata.db") as file:
            bucket = file.root.bucket(_VERSION, b"snapshots")
            found = {}
            for name, one in bucket.buckets() if bucket else ():
                with contextlib.suppress(Invalid):  # who asks for this snapshot is told that it is not there
                    if name in names:
                        found[names[name]] = f"{_SNAPSHOTTER}/snapshots/{_number(_value(one, b'id'))}/fs"
            return found


def _value(bucket: Bucket | None, key: bytes) -> bytes:
    found = bucket.get(key) if bucket is not None else None
    if found is None:
        raise Invalid(f"containerd has a record without {key.decode()}")
    return found


def _text(bucket: Bucket | None, key: bytes) -> str:
    return _value(bucket, key).decode("utf-8", "replace")


def _number(data: bytes) -> int:
    """A number in the form of Go's binary.PutUvarint."""
    found = 0
    for place, byte in enumerate(data[:10]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return found
    raise Invalid("containerd has a record with a damaged number")


@contextlib.contextmanager
def found(asked: str, dockerds: str) -> Iterator[Containerd | None]:
    """The containerd that has dockerd's images, while it is stopped; None where none has any.

    asked: a directory, or empty; dockerds: dockerd's data root. Raises NotFound for the one that was asked for,
        Unavailable while it runs.
    """
    usual = [os.path.join(dockerds, OF_DOCKERD), *([OF_HOST] if dockerds.rstrip("/") == DOCKERS else [])]
    for path in [asked] if asked else usual:
        try:
            source = Containerd(path)
        except NotFound:
            if asked:
                raise
            continue
        with source:
            if source.images():
                with source.still():
                    yield source
                return
    yield None


def bring(source: Containerd, target: Target, telling: Telling) -> None:
    """Bring over all of dockerd's images."""
    images = source.images()
    for key, error in source.broken.items():
        telling.lacks(f"image {key}", error)
    for number, (digest, texts) in enumerate(images.items(), 1):
        names = _names(texts, telling)
        shown = ", ".join(each.familiar for each in names) or digest[:19]
        with telling.passing_over(f"image {shown}"):
            image = target.image(digest)
            if image is None:
                telling.line(f"image {shown} ({number} of {len(images)}) ...")
                image = _added(source, target, telling, digest)
                target.learn(image)
                telling.took("image", shown)
            else:
                telling.found("image", shown)
            for name in target.name(image, names):
                telling.lacks(f"the name {name.familiar} of {image.id[:19]}", "another image has it here")


def _names(texts: list[str], telling: Telling) -> list[Reference]:
    found = []
    for text in texts:
        try:
            reference = Reference.parse(text)
        except Invalid as error:
            telling.lacks(f"the name {text}", error)
            continue
        if reference.tag:
            found.append(reference)
    return found


def _added(source: Containerd, target: Target, telling: Telling, digest: str) -> Image:
    with target.images.session() as session:
        files: Bundle = _Stored(source, target, telling, session, digest)
        for image, _ in load.described(target.images, session, files):
            return image
    raise NotFound("none of its platforms is there")


class _Stored:
    """One image of the store as `load` reads the files of an archive."""

    def __init__(self, source: Containerd, target: Target, telling: Telling, session: Session, digest: str) -> None:
        self._source = source
        self._target = target
        self._telling = telling
        self._session = session
        self._digest = digest

    def find(self, _name: str) -> tuple[str, int] | None:
        return None

    def document(self, name: str) -> bytes | None:
        if name != "index.json":
            return None
        size = self._size(self._digest)
        if size is None:
            raise NotFound(f"content digest {self._digest}: not found")
        data = self._source.data(_place(self._digest), documents.LARGEST_DOCUMENT)
        kind = documents.media_type_of(documents.load(data, "manifest"))
        return json.dumps({"manifests": [documents.descriptor(kind, self._digest, size)]}).encode()

    def has(self, part: Object) -> bool:
        return self._target.images.content.has(part["digest"], part["size"]) or self._size(part["digest"]) is not None

    def keeps(self, part: Object) -> bool:
        return self._target.images.content.has(part["digest"], part["size"])

    def blob(self, part: Object) -> Object:
        if not self._target.images.content.has(part["digest"], part["size"]):
            self._take(part["digest"], part["size"])
        return part

    def layers(self, digests: Sequence[str], diff_ids: Sequence[str]) -> list[Layer]:
        return [self._layer(*each) for each in zip(digests, chains(diff_ids), strict=True)]

    def layer_of(self, digest: str) -> Layer:
        raise NotFound(f"{digest} is no layer of an archive")

    def _layer(self, digest: str, place: tuple[str, str]) -> Layer:
        chain, diff_id = place
        try:
            path = self._source.snapshot(chain) if self._target.layers_linked else ""
        except NotFound:
            path = ""  # it was pulled and never unpacked
        if not path:
            return comparing.layer(self._session, self._target.images.content, digest, diff_id, lambda: None)
        with self._source.directory(path) as directory:
            layer = self._session.filled(diff_id, lambda root: self._share(directory, root, digest, diff_id))
        comparing.check_same(self._session.database, self._target.images.content, digest, diff_id, lambda: None)
        return layer

    def _share(self, directory: int, root: int, digest: str, diff_id: str) -> int:
        comparing.learn(digest, diff_id)  # containerd has looked at it when it unpacked the blob into this directory
        done = clone(directory, root, linked=True, tell=self._telling.progress)
        self._telling.add(done)
        return done.size

    def _size(self, digest: str) -> int | None:
        try:
            with self._source.opened(_place(digest)) as descriptor:
                return os.fstat(descriptor).st_size
        except NotFound:
            return None

    def _take(self, digest: str, size: int) -> None:
        """Make a blob of containerd's one of the engine's too. Raises NotFound, Invalid, SystemFailure."""
        content = self._target.images.content
        try:
            with self._source.opened(_place(digest)) as descriptor:
                if os.fstat(descriptor).st_size != size or _digest(descriptor, digest) != digest:
                    raise Invalid(f"the blob {digest} is another one")
                made = content.temporary_path()
                try:
                    # Python follows the link of an absolute path only where a directory is given too.
                    os.link(f"/proc/self/fd/{descriptor}", made, src_dir_fd=descriptor, follow_symlinks=True)
                except OSError as error:
                    if error.errno not in _CANNOT_LINK:
                        raise
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    with content.incoming() as blob:
                        while data := os.read(descriptor, _CHUNK):
                            blob.write(data)
                        blob.keep()
                else:
                    os.rename(made, content.path(digest))
        except OSError as error:
            raise SystemFailure(f"the blob {digest} cannot be taken: {reasons.of(error)}") from error


def _place(digest: str) -> str:
    check_digest(digest)
    algorithm, _, value = digest.partition(":")
    return f"{_BLOBS}/{algorithm}/{value}"


def _digest(descriptor: int, like: str) -> str:
    algorithm = like.partition(":")[0]
    hasher = hashlib.new(algorithm)
    while data := os.read(descriptor, _CHUNK):
        hasher.update(data)
    return f"{algorithm}:{hasher.hexdigest()}"
