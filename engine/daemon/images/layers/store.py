"""The store of unpacked layers: finding, unpacking, pinning and removing them, one numbered directory for each layer.

Runs in the daemon, on any thread. All images with the same layer share its directory. A layer is unpacked directly into
its directory. That counts only once an image in the database has the layer: what a crash leaves is removed at the next
start. A `Session` pins the layers that it uses, so that they are not removed meanwhile. What an image is, is not
decided here.
"""

import collections
import contextlib
import errno
import io
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence

from engine.daemon import locks
from engine.daemon.images.content import sha256
from engine.daemon.store import images as table
from engine.daemon.store.database import Database
from engine.daemon.streams import Buffer, Source
from engine.daemon.tar.trees import left_for_later, remove_tree
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.kernel import memory, placement
from engine.kernel.beneath import open_beneath
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first layer that is unpacked
    from engine.daemon.images.layers import unpack as layers
    from engine.daemon.tar import ahead, compression, reader
else:
    layers = late("engine.daemon.images.layers.unpack")
    ahead = late("engine.daemon.tar.ahead")
    compression = late("engine.daemon.tar.compression")
    reader = late("engine.daemon.tar.reader")

log = logging.getLogger(__name__)

_BUFFER = 256 * 1024
_ROOT_MODE = 0o755
_LOOK = 0.2
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Layer:
    """One unpacked layer.

    number: the name of its directory; diff_id: digest of its uncompressed tar; size: bytes that it takes on the disk
    """

    number: int
    diff_id: str
    size: int


class Hashing(io.RawIOBase):
    """A raw stream that hashes what is read through it."""

    def __init__(self, source: io.RawIOBase):
        self._source = source
        self._hash = sha256()

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer as the source does, and hash what it filled in."""
        count: int = self._source.readinto(buffer)
        self._hash.update(memoryview(buffer)[:count])
        return count

    def digest(self) -> str:
        """The digest `sha256:...` of what was read so far."""
        return f"sha256:{self._hash.hexdigest()}"


class LayerStore:
    """The layers in the directories below `root`.

    overlay, opaque: of the storage, as for `layers.unpack.unpack`
    """

    def __init__(self, database: Database, root: str, overlay: bool, opaque: str):
        self.database = database
        self._overlay = overlay
        self._opaque = opaque
        self._lock = locks.Lock("layers")
        self._pins: collections.Counter[int] = collections.Counter()
        self._busy: dict[str, threading.Event] = {}
        self.root = root
        os.makedirs(root, mode=0o700, exist_ok=True)
        placement.spread(root)

    def session(self) -> "Session":
        """A context in which the layers of one image are found or unpacked, and pinned."""
        return Session(self)

    def claim(self, diff_id: str, check: Callable[[], None] = lambda: None) -> Layer | None:
        """The layer with these contents, pinned once more, if it exists; waits while another thread unpacks it.

        After None the caller is the one to unpack it, and must call `disclaim` when it has done so or failed.
        check: called again and again while this waits; it may raise to end the waiting
        """
        while True:
            with self._lock:
                with self.database.reading() as connection:
                    row = table.layer_by_diff_id(connection, diff_id)
                if row:
                    self._pins[row["number"]] += 1
                    return Layer(row["number"], diff_id, row["size"])
                busy = self._busy.get(diff_id)
                if busy is None:
                    self._busy[diff_id] = threading.Event()
                    return None
            while not busy.wait(_LOOK):
                check()

    def disclaim(self, diff_id: str) -> None:
        """End the caller's claim on unpacking a layer, which `claim` gave it; waiting threads go on."""
        with self._lock:
            self._busy.pop(diff_id).set()

    def unpack(
        self,
        source: Source | io.RawIOBase,
        diff_id: str,
        abandon: Callable[[], None] | None = None,
        hashed: Callable[[], str] | None = None,
        plain: bool = False,
    ) -> tuple[Layer, tuple[str, ...]]:
        """Unpack a tar, compressed or not; returns the layer, pinned, and its directories that had no header.

        diff_id: what the digest of the uncompressed tar must be; empty takes any
        abandon: given for a source that a read-ahead thread may read; see `Ahead`
        hashed: given for a source that somebody hashes already; the digest of all of it, once its end was read
        plain: the source is a raw stream of a tar that is not compressed
        Raises Invalid, SystemFailure.
        """
        with self._numbered() as number:
            tar, form = _uncompressed(source, plain)
            with contextlib.nullcontext(tar) if abandon is None else ahead.Ahead(tar, abandon) as stream:
                if hashed is None or form:  # the digest of a layer is that of its uncompressed tar
                    # Not on the thread that reads ahead: to decompress takes longer than to unpack.
                    stream = hashing = Hashing(stream)
                    hashed = hashing.digest
                size, implied = self._unpack_into(number, io.BufferedReader(stream, _BUFFER))
            found = hashed()
            if diff_id and found != diff_id:
                raise Invalid(f'wrong diff id "{found}" calculated on extraction "{diff_id}"')
        layer = self._name(Layer(number, found, size))
        # A layer that existed already keeps its directories as its first image has them: other images use them too.
        return layer, implied if layer.number == number else ()

    def fill(self, diff_id: str, work: Callable[[int], int]) -> Layer:
        """A layer, pinned, whose directory `work` fills, which is called with its descriptor and returns its size.

        diff_id: the caller knows that a tar of these files has this digest. Raises what `work` raises.
        """
        with self._numbered() as number:
            root = self._made(number)
            try:
                size = work(root)
            finally:
                os.close(root)
        return self._name(Layer(number, diff_id, size))

    @contextlib.contextmanager
    def _numbered(self) -> Iterator[int]:
        """The number of a new layer, pinned, whose directory the caller makes; after an exception nothing is left."""
        with self._lock, self.database.transaction() as connection:
            number = table.new_layer(connection)
            self._pins[number] += 1
        try:
            yield number
        except BaseException:
            # The files are removed first: on a full disk the database may need their room to record the removal.
            self._remove_directory(str(number))
            self.unpin([number])
            self.collect()
            raise

    def _made(self, number: int) -> int:
        # Made under a name of chance, because the file system chooses its place by the name (see `placement`): that of
        # the layer that had this number in an earlier data root may be full of inodes that were removed just now.
        path, made = (os.path.join(self.root, name) for name in (str(number), f"new-{os.urandom(8).hex()}"))
        os.mkdir(made, 0o700)
        os.rename(made, path)
        root = os.open(path, _DIRECTORY)
        os.fchmod(root, _ROOT_MODE)
        return root

    def _unpack_into(self, number: int, stream: io.BufferedReader) -> tuple[int, tuple[str, ...]]:
        fd = self._made(number)
        try:
            unpacked = layers.unpack(stream, fd, self._overlay, self._opaque)
            reader.read_rest(stream, "the layer")  # the digest is of all of it
            return unpacked.size, unpacked.implied
        finally:
            os.close(fd)

    def _name(self, layer: Layer) -> Layer:
        """Record the layer's diff id; if another layer has it already, drop this one and return the other, pinned."""
        with self._lock, self.database.transaction() as connection:
            row = table.layer_by_diff_id(connection, layer.diff_id)
            if row is None:
                table.name_layer(connection, layer.number, layer.diff_id, layer.size)
                return layer
            self._pins[row["number"]] += 1
        self.unpin([layer.number])
        self.collect()
        return Layer(row["number"], layer.diff_id, row["size"])

    def unpin(self, numbers: Sequence[int]) -> None:
        """Take back one pin of each of these layers, which `claim` or `unpack` set."""
        with self._lock:
            self._pins.subtract(numbers)
            self._pins += collections.Counter()

    def collect(self) -> int:
        """Remove the layers that belong to no image and are not pinned; returns how many."""
        with self._lock, self.database.transaction(frees=True) as connection:
            idle = [number for number in table.idle_layers(connection) if number not in self._pins]
            table.forget_layers(connection, idle)
        # A number is never given twice, so the directories can be removed without the lock.
        for number in idle:
            self._remove_directory(str(number))
        return len(idle)

    def sweep(self) -> None:
        """At the daemon's start: remove the layers that an interrupted pull or removal left behind."""
        self.collect()
        with self.database.reading() as connection:
            known = table.layer_numbers(connection)
        for name in os.listdir(self.root):
            if not name.isdigit() or int(name) not in known:
                self._remove_directory(name)

    def _remove_directory(self, name: str) -> None:
        fd = os.open(self.root, _DIRECTORY)
        try:
            with left_for_later("a layer of no image"), contextlib.suppress(FileNotFoundError):
                remove_tree(fd, name)  # not found: unpacking failed before its directory was made
        finally:
            os.close(fd)


def _uncompressed(source: Source | io.RawIOBase, plain: bool) -> tuple[io.RawIOBase, str]:
    """A source as a raw stream of a tar, and the name of its compression. plain: it is known to be that stream"""
    if plain and isinstance(source, io.RawIOBase):
        return source, ""
    found = compression.Unpacked(source)
    return found, found.form


class Session:
    """The layers of one image that is being made, pinned until the context ends. Several threads may use it at once."""

    def __init__(self, store: LayerStore):
        self._store = store
        self.database = store.database
        self._lock = threading.Lock()
        self._pinned: list[int] = []
        self._implied: dict[int, tuple[str, ...]] = {}

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._store.unpin(self._pinned)
        self._store.collect()
        memory.trim()  # unpacking takes megabytes, which the C library would not give back by itself

    def layer(
        self, diff_id: str, open_source: Callable[[], io.RawIOBase], check: Callable[[], None] = lambda: None
    ) -> Layer:
        """The layer with these contents; if it does not exist, it is unpacked from open_source(), which is then closed.

        Another thread reads the source. A source whose reads may block must have a method `abandon` that ends them.
        check: called again and again while another thread unpacks the layer; it may raise to end the waiting
        """
        found = self._store.claim(diff_id, check)
        if found is None:
            try:
                with open_source() as source:
                    return self.unpack(source, diff_id, getattr(source, "abandon", lambda: None))
            finally:
                self._store.disclaim(diff_id)
        self._hold(found)
        return found

    def unpack(
        self,
        source: Source | io.RawIOBase,
        diff_id: str = "",
        abandon: Callable[[], None] | None = None,
        hashed: Callable[[], str] | None = None,
        plain: bool = False,
    ) -> Layer:
        """The layer unpacked from its tar, pinned by the session. Parameters and errors: see `LayerStore.unpack`."""
        layer, implied = self._store.unpack(source, diff_id, abandon, hashed, plain)
        self._hold(layer)
        if implied:
            with self._lock:
                self._implied[layer.number] = implied
        return layer

    def filled(self, diff_id: str, work: Callable[[int], int]) -> Layer:
        """The layer with these contents; where there is none, `work` fills its directory. See `LayerStore.fill`."""
        layer = self._store.claim(diff_id)
        if layer is None:
            try:
                layer = self._store.fill(diff_id, work)
            finally:
                self._store.disclaim(diff_id)
        self._hold(layer)
        return layer

    def _hold(self, layer: Layer) -> None:
        with self._lock:
            self._pinned.append(layer.number)

    def settle(self, image_layers: Sequence[Layer]) -> None:
        """Give directories of new layers that had no header the owner and mode that they have in the layers below.

        overlayfs shows a directory as its uppermost layer has it. So /tmp would lose its sticky bit to a layer whose
        tar has only tmp/x. A layer that other images share keeps what its first image gave it.
        """
        for place, layer in enumerate(image_layers):
            for path in self._implied.pop(layer.number, ()):
                self._settle_one(path, layer, image_layers[:place])

    def _settle_one(self, path: str, layer: Layer, below: Sequence[Layer]) -> None:
        ours = self._open_directory(layer, path)
        if ours is None:
            return  # a later member of the layer has replaced it
        try:
            for other in reversed(below):
                theirs = self._open_directory(other, path)
                if theirs is not None:
                    found = os.fstat(theirs)
                    os.close(theirs)
                    os.fchown(ours, found.st_uid, found.st_gid)
                    os.fchmod(ours, stat.S_IMODE(found.st_mode))
                    return
        finally:
            os.close(ours)

    def _open_directory(self, layer: Layer, path: str) -> int | None:
        root = os.open(os.path.join(self._store.root, str(layer.number)), _DIRECTORY)
        try:
            return open_beneath(root, path, _DIRECTORY, no_symlinks=True)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a symbolic link somewhere in the path
                return None
            raise
        finally:
            os.close(root)
