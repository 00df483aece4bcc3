"""Reads a small file, such as one of a cgroup or of /etc, with few system calls. Keeps no state."""

import os

_PIECE = 16 * 1024


def read(path: str) -> bytes:
    """The content of a file, by four system calls where Python's own file objects take seven. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = piece = os.read(descriptor, _PIECE)
        while piece:
            piece = os.read(descriptor, _PIECE)
            content += piece
        return content
    finally:
        os.close(descriptor)
