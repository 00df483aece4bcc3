"""WORKDIR: an operation that finds the directories that a tree lacks, and packs them as a layer's tar.

Runs on a thread that builds, or on the one that looks into the tree. Nothing is written to the tree, and its symbolic
links are not followed out of it.
"""

import functools
import os
import stat
import time
from collections.abc import Iterator, Sequence

from engine.daemon.builder import fileactions, fileedits, rewriting
from engine.daemon.builder.graph.node import Value, chains, digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.clock import SECOND
from engine.daemon.images.layers import merged
from engine.daemon.tar.chunkstream import Stream
from engine.daemon.tar.writer import END, Chunk, header
from engine.errors import Invalid
from engine.kernel.beneath import open_beneath

_MODE = stat.S_IFDIR | 0o755
_PLACE = os.O_PATH | os.O_CLOEXEC
_DIRECTORY = _PLACE | os.O_DIRECTORY
_MOST_LINKS = 40


class MakingDirectory:
    """An operation that makes a directory and those above it in a tree, as far as the tree lacks them.

    path: absolute and clean; symbolic links of the tree on the way are followed inside it
    user: who is to own what is made, as `USER` names it in the tree; empty for root
    seconds: its time since 1970, None for now
    """

    kind = "regular"

    def __init__(self, path: str, title: str, user: str = "", seconds: int | None = None) -> None:
        self.title = title
        self.path, self.user, self.seconds = path, user, seconds

    def key(self) -> str:
        """The path."""
        return digest("directory", *self._decides())

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str:
        """The path in the tree."""
        return digest("directory", *self._decides(), chains(inputs))

    def _decides(self) -> list[Value]:
        return [self.path, self.user, *(() if self.seconds is None else (self.seconds,))]

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree with the directory, where it lacks it. Raises Invalid for something else in the way."""
        tree = inputs[0]
        layer_root = work.engine.images.layer_root

        def look(root: int) -> tuple[tuple[str, ...], tuple[int, int]]:
            return missing(root, self.path), self._owner(tree, root)

        if work.keeper.traces:
            owner = merged.within(layer_root, tree.layers, functools.partial(self._owner, tree))
            return (self._made(work, tree, owner),)
        absent, owner = merged.within(layer_root, tree.layers, look)
        return (tree.above(work.keeper.packed(Stream(tar(absent, owner)), tree)),)

    def _owner(self, tree: Snapshot, root: int) -> tuple[int, int]:
        who = fileactions.owners(self.user, 0 if tree.parts else fileactions.NOTHING)
        return fileactions.owner_of(*who, lambda _number: root) or (0, 0)

    def _made(self, work: Work, tree: Snapshot, owner: tuple[int, int]) -> Snapshot:
        """The tree with a directory that is made in it, so that it has what its parents lend it, as with BuildKit."""

        def make(root: int) -> None:
            given = fileedits.Attributes(owner, None if self.seconds is None else self.seconds * SECOND)
            act = functools.partial(fileedits.make_directory, root, self.path, stat.S_IMODE(_MODE), True, given)
            fileedits.explained("mkdir", self.path, act)

        return rewriting.rewritten(work, tree, make)


def missing(root: int, path: str) -> tuple[str, ...]:
    """The directories to be made for `path` beneath `root`, parents first, relative to it; links are followed.

    Raises Invalid where something else than a directory is in the way, or for too many links.
    """
    real: list[str] = []
    waiting = [part for part in path.split("/") if part not in ("", ".")][::-1]
    absent: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            del real[-1:]
            continue
        found = None if absent else _look(root, real, part)
        real.append(part)
        if found is None:
            absent.append("/".join(real))
        elif stat.S_ISLNK(found[0]):
            links += 1
            if links > _MOST_LINKS:
                raise Invalid(f"WORKDIR {path}: too many levels of symbolic links")
            real = [] if found[1].startswith("/") else real[:-1]
            waiting.extend([part for part in found[1].split("/") if part not in ("", ".")][::-1])
        elif not stat.S_ISDIR(found[0]):
            raise Invalid(f"Cannot mkdir: {path} is not a directory")
    return tuple(dict.fromkeys(absent))


def _look(root: int, above: list[str], name: str) -> tuple[int, str] | None:
    """The st_mode of a name in a directory of the root, and a link's target (else empty); None if nothing is there."""
    directory = open_beneath(root, "/".join(above) or "/", _DIRECTORY, no_symlinks=True)
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        target = os.readlink(name, dir_fd=directory) if stat.S_ISLNK(found.st_mode) else ""
    except FileNotFoundError:
        return None
    finally:
        os.close(directory)
    return found.st_mode, target


def tar(paths: tuple[str, ...], owner: tuple[int, int] = (0, 0)) -> Iterator[Chunk]:
    """The chunks of a layer's tar with these directories, with mode 755. owner: uid and gid"""
    now = int(time.time())
    found = os.stat_result((_MODE, 0, 0, 1, *owner, 0, now, now, now))
    for path in paths:
        yield header(f"{path}/".encode("utf-8", "surrogateescape"), found)
    yield END
