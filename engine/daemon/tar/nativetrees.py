"""Removes a tree by the C muxer (`_muxer/files/trees.c`); loaded only where that was selected."""

import os

from _muxer._native import lib


def remove(parent: int, name: str) -> None:
    """As `trees.remove_tree` does without a check; the error names the top of the tree. Raises OSError."""
    failed = lib.mux_remove_tree(parent, os.fsencode(name))
    if failed < 0:
        raise OSError(-failed, os.strerror(-failed), name)
