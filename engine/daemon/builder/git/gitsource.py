"""The source `git`: an operation of the build graph that makes a tree of the files of one commit.

The repository is asked in each build which commit it is; what is known of that is kept.
"""

import os
import threading
from collections.abc import Iterator, Sequence

from engine.daemon.builder.git import checkout
from engine.daemon.builder.git.checkout import Resolved
from engine.daemon.builder.git.gitaddress import GitAddress
from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.tar.chunkstream import Stream
from engine.daemon.tar.trees import remove_path
from engine.daemon.tar.writer import Chunk, Packer


class GitSource:
    """The operation, which belongs to one build. address: of the repository, and what of it is wanted"""

    kind = "source.git.checkout"

    def __init__(self, address: GitAddress, keep_git_dir: bool = False, title: str = "") -> None:
        """keep_git_dir: git's own files are part of the tree"""
        self.title = title or f"git snapshot for {address.shown}#{address.ref}"
        self.address, self.keep = address, bool(address.keep_git_dir) or keep_git_dir
        self._lock = threading.Lock()  # of the next; git runs while it is held, for this one source
        self._resolved: Resolved | None = None

    def key(self) -> str:
        """The address."""
        return digest("git", *self._parts())

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str:
        """The commit, and what of it is wanted. Raises EngineErrors."""
        return digest("git commit", self._commit(work).commit, *self._parts())

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree. Raises EngineErrors."""
        resolved = self._commit(work)
        place = os.readlink(f"/proc/self/fd/{work.scratch}")
        with work.waiting():
            found = checkout.check_out(self.address, resolved, place, work.giver, work.check, self.keep)
        try:
            part = work.keeper.packed(Stream(_chunks(found.path)), Snapshot())
        finally:
            remove_path(found.place)
        return (Snapshot().above(part),)

    def _commit(self, work: Work) -> Resolved:
        with self._lock:
            if self._resolved is None:
                place = os.readlink(f"/proc/self/fd/{work.scratch}")
                with work.waiting():
                    self._resolved = checkout.resolve(self.address, place, work.giver, work.check)
            return self._resolved

    def _parts(self) -> tuple[str | bool, ...]:
        one = self.address
        texts = (one.remote, one.userinfo, one.ref, one.subdir, one.checksum)
        return (*texts, one.submodules, one.commit_times, one.by_commit, self.keep)


def _chunks(path: str) -> Iterator[Chunk]:
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        packer = Packer()
        yield from packer.contents(top, "")
        yield packer.end()
    finally:
        os.close(top)
