"""Gathered writes that were cut short: which pieces are left after writev(2) or sendmsg(2) has taken only some bytes.

Pure; used wherever several pieces are written at once, in the daemon's threads and beside monitors.
"""

Pieces = tuple[bytes | memoryview, ...]


def rest(pieces: Pieces, size: int) -> Pieces:
    """What is left of the pieces after their first `size` bytes; nothing is copied."""
    for number, piece in enumerate(pieces):
        if size < len(piece):
            return (memoryview(piece)[size:], *pieces[number + 1 :])
        size -= len(piece)
    return ()
