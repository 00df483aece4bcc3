"""Makes a tree of one layer out of the chunks of a tar."""

from collections.abc import Callable, Iterator

from engine.daemon.build.graph.keeper import Keeper
from engine.daemon.build.graph.snapshot import Snapshot
from engine.daemon.tar.writer import Chunk


def tree(keeper: Keeper, chunks: Iterator[Chunk], check: Callable[[], None]) -> Snapshot:
    """The tree, which the keeper keeps. check: is called for each chunk, and raises to end it. Raises EngineErrors."""
    below = Snapshot()
    return below.above(keeper.packed(_Chunks(chunks, check), below))


class _Chunks:
    """A stream of chunks, each good until the next one is taken."""

    def __init__(self, chunks: Iterator[Chunk], check: Callable[[], None]) -> None:
        self._chunks = chunks
        self._check = check
        self._left = memoryview(b"")

    def read(self, count: int) -> bytes:
        """Up to `count` bytes; none at the end."""
        while not self._left:
            self._check()
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._left = memoryview(chunk)
        data, self._left = bytes(self._left[:count]), self._left[count:]
        return data
