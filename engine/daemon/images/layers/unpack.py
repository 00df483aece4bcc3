"""Unpacking one layer's tar stream into its directory, with its whiteouts in the form that the storage kind needs.

Runs in the daemon, on the thread that pulls or loads. `tar.extract` makes ordinary members. This file handles
whiteouts, which mark files of lower layers as deleted (see `whiteouts`).
"""

import contextlib
import io
import os
import stat

from engine.daemon.images.layers.whiteouts import OPAQUE, TRUSTED_OPAQUE, WHITEOUT
from engine.daemon.tar import reader as tar
from engine.daemon.tar import trees
from engine.daemon.tar.extract import CREATE, DIRECTORY, Extraction, failure
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.kernel import userns
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # where the daemon has C make trees
    from engine.daemon.tar import nativeextract
else:
    nativeextract = late("engine.daemon.tar.nativeextract")

# aufs kept metadata of its own under this prefix, which is no part of the image.
_AUFS = ".wh..wh."


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The result of unpacking a layer. size: bytes that it takes on the disk

    implied: directories that had no header, as paths relative to the layer, parents first; their owner and mode are to
        be those of the layer below, if that has them
    """

    size: int
    implied: tuple[str, ...]


def unpack(stream: io.BufferedIOBase, root_fd: int, overlay: bool, opaque: str = TRUSTED_OPAQUE) -> Unpacked:
    """Unpack the uncompressed tar `stream` into the empty directory `root_fd`; may read further than to the tar's end.

    overlay: write whiteouts in the form of the kernel's overlayfs; else they stay files named `.wh.NAME`, for
        `storage.copy_layers`. opaque: the attribute that overlays of this store obey
    Raises Invalid for an error in the layer, SystemFailure for a failure of the host.
    """
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(contextlib.closing(_Unpacking(root_fd, overlay, opaque)))
        reader = tar.TarReader(stream)
        if trees.in_c() and userns.ids() > 1:  # where only one id is mapped, owners are noted, which C does not
            work.plain = stack.enter_context(nativeextract.PlainMembers(stream, root_fd, work))
            reader = tar.TarReader(work.plain, work.plain.make)
        for entry in reader:
            try:
                work.add(entry, reader)
            except OSError as error:
                raise failure(entry.name, error) from error
        try:
            work.settle_directories()
        except OSError as error:
            raise failure(str(error.filename or "."), error) from error
        return Unpacked(work.size, tuple(work.implied))


class _Unpacking(Extraction):
    """An extraction that handles whiteouts. plain: makes the plain members in C, None where Python makes all"""

    def __init__(self, root_fd: int, overlay: bool, opaque: str):
        super().__init__(root_fd)
        self._overlay = overlay
        self._opaque = opaque
        self.plain: nativeextract.PlainMembers | None = None

    def remove(self, parent: int, name: str) -> None:
        """Remove an entry, and have C too forget the directories that were open."""
        super().remove(parent, name)
        if self.plain is not None:
            self.plain.forget()

    def add(self, entry: tar.Entry, reader: tar.TarReader) -> None:
        """Make one member, or apply it if it is a whiteout. Raises Invalid, OSError."""
        parts = self.parts_of(entry.name)
        self.check(entry)
        if not parts:
            if entry.kind == tar.DIRECTORY:
                self.attend_directory(entry, "", self.root, ".")
            return
        if entry.kind == tar.LINK and "".join(self.parts_of(entry.link)[-1:]).startswith(WHITEOUT):
            raise Invalid(f"invalid hard link {entry.name!r} in the layer")
        if not parts[-1].startswith(WHITEOUT):
            self.make(entry, parts, reader)
            return
        # umoci writes whiteouts for the contents of a directory that is a file now. That file hides them all already.
        with contextlib.suppress(NotADirectoryError):
            self._whiteout(self.parent("/".join(parts[:-1])), parts[-1])

    def on_replaced(self, found: os.stat_result, parent: int, name: str) -> None:
        """Make a directory that replaces a whiteout opaque: the whiteout has deleted that of the layers below."""
        if self._overlay and _is_whiteout(found):
            self._make_opaque(parent, name)

    def on_null_device(self, _: tar.Entry, parent: int, name: str) -> bool:
        """Apply a device 0:0 as a whiteout of its name, as overlayfs would; this works with both storage kinds."""
        self._whiteout(parent, WHITEOUT + name)
        return True

    def _whiteout(self, parent: int, name: str) -> None:
        if name == OPAQUE:
            if self._overlay:
                self._set_opaque(parent)
            else:
                self._empty_file(parent, OPAQUE)
            return
        if name.startswith(_AUFS):
            return
        hidden = name.removeprefix(WHITEOUT)
        if hidden in ("", ".", ".."):
            raise Invalid(f"invalid whiteout {name!r} in the layer")
        if not self._overlay:
            self._empty_file(parent, name)
            return
        try:
            os.mknod(hidden, stat.S_IFCHR, os.makedev(0, 0), dir_fd=parent)
        except FileExistsError:
            # A whiteout is about the layers below. What this layer itself has stays, whichever of both comes first.
            if stat.S_ISDIR(os.stat(hidden, dir_fd=parent, follow_symlinks=False).st_mode):
                self._make_opaque(parent, hidden)

    def _empty_file(self, parent: int, name: str) -> None:
        with contextlib.suppress(FileExistsError):  # the layer has the same whiteout twice
            os.close(os.open(name, CREATE, 0o600, dir_fd=parent))

    def _set_opaque(self, fd: int) -> None:
        # Through /proc, because fsetxattr(2) refuses an O_PATH descriptor.
        os.setxattr(f"/proc/self/fd/{fd}", self._opaque, b"y")

    def _make_opaque(self, parent: int, name: str) -> None:
        fd = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            self._set_opaque(fd)
        finally:
            os.close(fd)


def _is_whiteout(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0
