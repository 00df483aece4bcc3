"""Makes a tree of one layer out of the chunks of a tar."""

from collections.abc import Callable, Iterator

from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.tar.chunkstream import Stream
from engine.daemon.tar.writer import Chunk


def tree(keeper: Keeper, chunks: Iterator[Chunk], check: Callable[[], None]) -> Snapshot:
    """The tree, which the keeper keeps. check: is called for each chunk, and raises to end it. Raises EngineErrors."""
    below = Snapshot()
    return below.above(keeper.packed(Stream(_checked(chunks, check)), below))


def _checked(chunks: Iterator[Chunk], check: Callable[[], None]) -> Iterator[Chunk]:
    for chunk in chunks:
        check()
        yield chunk
