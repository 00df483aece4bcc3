"""The unpacked layers of a data root: one directory each, numbered, shared by every image with the same contents.

Runs in the daemon, on any thread. A layer is unpacked straight into its directory, which counts for nothing until the
image that needs it is in the database: what a crash leaves is swept at the next start. A `Session` pins the layers it
touches, so that a removal meanwhile does not take them. Never decides what an image is.
"""

import collections
import contextlib
import errno
import io
import logging
import os
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.daemon import locks
from engine.daemon.images.content import sha256
from engine.daemon.store import images as table
from engine.daemon.store.database import Database
from engine.daemon.streams import Buffer, Source
from engine.daemon.tar.trees import remove_tree
from engine.errors import Invalid
from engine.kernel import memory
from engine.kernel.beneath import open_beneath
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first layer that is unpacked
    from engine.daemon.images.layers import unpack as layers
    from engine.daemon.tar import ahead, compression
else:
    layers = late("engine.daemon.images.layers.unpack")
    ahead = late("engine.daemon.tar.ahead")
    compression = late("engine.daemon.tar.compression")

log = logging.getLogger(__name__)

_BUFFER = 256 * 1024
# Writers fill up their last record; what follows an archive's end beyond that is no layer.
_MOST_TRAILING = 64 * 1024 * 1024
_ROOT_MODE = 0o755
_LOOK = 0.2
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Layer:
    """One unpacked layer: the name of its directory as a number, the digest of its tar, the bytes it takes."""

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

    @property
    def digest(self) -> str:
        """`sha256:...` of what was read so far."""
        return f"sha256:{self._hash.hexdigest()}"


class LayerStore:
    """The directories below `root`; overlay: see `layers.unpack`."""

    def __init__(self, database: Database, root: str, overlay: bool):
        self._database = database
        self._overlay = overlay
        self._lock = locks.Lock("layers")
        self._pins: collections.Counter[int] = collections.Counter()
        self._busy: dict[str, threading.Event] = {}
        self.root = root
        os.makedirs(root, mode=0o700, exist_ok=True)

    def session(self) -> "Session":
        """A context in which layers are found, unpacked and put together for one image."""
        return Session(self)

    def claim(self, diff_id: str, check: Callable[[], None] = lambda: None) -> Layer | None:
        """The layer, pinned once more, if it is there; waits for another thread that is unpacking it.

        None makes the caller the one who unpacks it; it must call `disclaim` when it is done or has failed.
        check: called again and again meanwhile, to end the waiting by raising
        """
        while True:
            with self._lock:
                with self._database.reading() as connection:
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
        """The unpacking that `claim` gave to the caller is over."""
        with self._lock:
            self._busy.pop(diff_id).set()

    def unpack(
        self, source: Source, diff_id: str, abandon: Callable[[], None] | None = None
    ) -> tuple[Layer, tuple[str, ...]]:
        """Unpack a (compressed) tar; returns the layer, pinned, and the directories that it only implied.

        diff_id: what the plain tar's digest must be, or empty to take what it is
        abandon: given for a source that another thread may read, ahead; see `Ahead`
        Raises Invalid, SystemFailure.
        """
        with self._lock, self._database.transaction() as connection:
            number = table.new_layer(connection)
            self._pins[number] += 1
        try:
            plain = Hashing(compression.Unpacked(source))
            with contextlib.nullcontext(plain) if abandon is None else ahead.Ahead(plain, abandon) as stream:
                size, implied = self._unpack_into(number, io.BufferedReader(stream, _BUFFER))
            if diff_id and plain.digest != diff_id:
                raise Invalid(f'wrong diff id calculated on extraction "{plain.digest}"')
        except BaseException:
            # The files first: on a full disk the database may need the room to say that they are gone.
            self._remove_directory(str(number))
            self.unpin([number])
            self.collect()
            raise
        layer = self._name(Layer(number, plain.digest, size))
        # Of one that was there already the directories are as its first image has them: others stand on it.
        return layer, implied if layer.number == number else ()

    def _unpack_into(self, number: int, stream: io.BufferedReader) -> tuple[int, tuple[str, ...]]:
        path = os.path.join(self.root, str(number))
        os.mkdir(path, 0o700)
        fd = os.open(path, _DIRECTORY)
        try:
            os.fchmod(fd, _ROOT_MODE)
            unpacked = layers.unpack(stream, fd, self._overlay)
            # The digest is of the whole stream, not only of what the reader needed.
            trailing = 0
            while data := stream.read1(_BUFFER):
                trailing += len(data)
                if trailing > _MOST_TRAILING:
                    raise Invalid("the layer goes on after the end of its archive")
            return unpacked.size, unpacked.implied
        finally:
            os.close(fd)

    def _name(self, layer: Layer) -> Layer:
        """Give the layer its contents' name; where another one had it already, that one serves."""
        with self._lock, self._database.transaction() as connection:
            row = table.layer_by_diff_id(connection, layer.diff_id)
            if row is None:
                table.name_layer(connection, layer.number, layer.diff_id, layer.size)
                return layer
            self._pins[row["number"]] += 1
        self.unpin([layer.number])
        self.collect()
        return Layer(row["number"], layer.diff_id, row["size"])

    def unpin(self, numbers: Sequence[int]) -> None:
        """The other end of `claim` and `unpack`."""
        with self._lock:
            self._pins.subtract(numbers)
            self._pins += collections.Counter()

    def collect(self) -> int:
        """Remove the layers that neither an image nor a session holds; returns how many."""
        with self._lock, self._database.transaction(frees=True) as connection:
            idle = [number for number in table.idle_layers(connection) if number not in self._pins]
            table.forget_layers(connection, idle)
        # A number is never given twice, so the directories can go without the lock.
        for number in idle:
            self._remove_directory(str(number))
        return len(idle)

    def sweep(self) -> None:
        """At the daemon's start: remove what an interrupted pull, or a removal, left behind."""
        self.collect()
        with self._database.reading() as connection:
            known = table.layer_numbers(connection)
        for name in os.listdir(self.root):
            if not name.isdigit() or int(name) not in known:
                self._remove_directory(name)

    def _remove_directory(self, name: str) -> None:
        fd = os.open(self.root, _DIRECTORY)
        try:
            with contextlib.suppress(FileNotFoundError):  # it failed before its directory was made
                remove_tree(fd, name)
        finally:
            os.close(fd)


class Session:
    """The layers of one image in the making, pinned until the context ends. Methods may run on several threads."""

    def __init__(self, store: LayerStore):
        self._store = store
        self._lock = threading.Lock()
        self._pinned: list[int] = []
        self._implied: dict[int, tuple[str, ...]] = {}

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._store.unpin(self._pinned)
        self._store.collect()
        memory.trim()  # what unpacking has filled is megabytes, which the C library would keep for good

    def layer(
        self, diff_id: str, open_source: Callable[[], io.RawIOBase], check: Callable[[], None] = lambda: None
    ) -> Layer:
        """The layer with these contents, unpacked from open_source() (closed afterwards) if it is not there.

        The source is read by another thread; one whose reading may have to wait for somebody has an `abandon` for it.
        check: called again and again while somebody else unpacks the layer, to end the waiting by raising
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

    def unpack(self, source: Source, diff_id: str = "", abandon: Callable[[], None] | None = None) -> Layer:
        """A layer from its (compressed) tar; an empty diff_id takes any contents. See `LayerStore.unpack`."""
        layer, implied = self._store.unpack(source, diff_id, abandon)
        self._hold(layer)
        if implied:
            with self._lock:
                self._implied[layer.number] = implied
        return layer

    def _hold(self, layer: Layer) -> None:
        with self._lock:
            self._pinned.append(layer.number)

    def settle(self, image_layers: Sequence[Layer]) -> None:
        """Give the directories that a new layer only implied the owner and mode they have in the layers below.

        An overlay shows a directory as its uppermost layer has it, so /tmp would lose its sticky bit to a layer that
        brings tmp/x alone. A layer that is shared keeps what the first image gave it.
        """
        for place, layer in enumerate(image_layers):
            for path in self._implied.pop(layer.number, ()):
                self._settle_one(path, layer, image_layers[:place])

    def _settle_one(self, path: str, layer: Layer, below: Sequence[Layer]) -> None:
        ours = self._open_directory(layer, path)
        if ours is None:
            return  # a later member of the layer took its place
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
