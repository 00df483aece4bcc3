"""Writes bytes to a descriptor of the client's, all of them.

Runs in the client's one thread.
"""

import os


def write_all(fd: int, data: bytes) -> None:
    """Write all of the data, in as many writes as it takes. Raises BrokenPipeError when the reader has
    closed its end.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
