"""Unpacking one layer's tar stream beneath its directory, with whiteouts put into the form that the storage reads.

Runs in the daemon, on the thread that pulls or loads. What a layer's members have in common with others is `extract`'s;
here is what whiteouts mean (see `whiteouts`).
"""

import contextlib
import os
import stat
from dataclasses import dataclass

from engine.daemon.images.layers.whiteouts import OPAQUE, OPAQUE_ATTRIBUTE, WHITEOUT
from engine.daemon.streams import Source
from engine.daemon.tar import reader as tar
from engine.daemon.tar.extract import CREATE, DIRECTORY, Extraction, failure
from engine.errors import Invalid

# aufs kept its own books under this prefix; they are no part of the image.
_AUFS = ".wh..wh."


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What came out: bytes it takes on the disk, and the directories that no header spoke of.

    implied: paths relative to the layer, parents first; their owner and mode are those of the layer below, if it knows.
    """

    size: int
    implied: tuple[str, ...]


def unpack(stream: Source, root_fd: int, overlay: bool) -> Unpacked:
    """Unpack the plain tar `stream` into the empty directory `root_fd`; reads no further than its end.

    overlay: write whiteouts as the kernel's overlayfs reads them; else they stay files called `.wh.NAME`, for
        `storage.copy_layers`.
    Raises Invalid for what the layer gets wrong, SystemFailure for what the host refuses.
    """
    with contextlib.closing(_Unpacking(root_fd, overlay)) as work:
        reader = tar.TarReader(stream)
        for entry in reader:
            try:
                work.add(entry, reader)
            except OSError as error:
                raise failure(entry.name, error) from error
        work.settle_directories()
        return Unpacked(work.size, tuple(work.implied))


class _Unpacking(Extraction):
    """An extraction that knows whiteouts."""

    def __init__(self, root_fd: int, overlay: bool):
        super().__init__(root_fd)
        self._overlay = overlay

    def add(self, entry: tar.Entry, reader: tar.TarReader) -> None:
        """Make one member."""
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
        # umoci writes whiteouts for what was in a directory that is a file now: the file hides it all already.
        with contextlib.suppress(NotADirectoryError):
            self._whiteout(self.parent("/".join(parts[:-1])), parts[-1])

    def on_replaced(self, found: os.stat_result, parent: int, name: str) -> None:
        """A whiteout and then a directory of that name: what the layers below have in theirs is gone."""
        if self._overlay and _is_whiteout(found):
            self._make_opaque(parent, name)

    def on_null_device(self, _: tar.Entry, parent: int, name: str) -> bool:
        """The kernel would take it for a whiteout; so say it in the one way that both storages know."""
        self._whiteout(parent, WHITEOUT + name)
        return True

    def _whiteout(self, parent: int, name: str) -> None:
        if name == OPAQUE:
            if self._overlay:
                _set_opaque(parent)
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
            # A whiteout speaks of the layers below; what this layer itself brings stays, whichever comes first.
            if stat.S_ISDIR(os.stat(hidden, dir_fd=parent, follow_symlinks=False).st_mode):
                self._make_opaque(parent, hidden)

    def _empty_file(self, parent: int, name: str) -> None:
        with contextlib.suppress(FileExistsError):  # the same whiteout twice
            os.close(os.open(name, CREATE, 0o600, dir_fd=parent))

    def _make_opaque(self, parent: int, name: str) -> None:
        fd = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            _set_opaque(fd)
        finally:
            os.close(fd)


def _is_whiteout(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _set_opaque(fd: int) -> None:
    # By way of /proc, because the descriptor is an O_PATH one.
    os.setxattr(f"/proc/self/fd/{fd}", OPAQUE_ATTRIBUTE, b"y")
