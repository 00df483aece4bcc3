"""The user's own terminal: raw mode for as long as a container has it, its size, and the keys that let go of it.

Runs in the client's one thread. The mode found is always put back, whatever happens in between.
"""

import os
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import Invalid

DETACH_KEYS = b"\x10\x11"  # ctrl-p ctrl-q, as docker's


@contextmanager
def raw(fd: int) -> Iterator[None]:
    """The terminal `fd` in raw mode."""
    found = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield
    finally:
        # TCSADRAIN, not TCSAFLUSH: what the user typed ahead is for the shell that comes next.
        termios.tcsetattr(fd, termios.TCSADRAIN, found)


def size(fd: int) -> tuple[int, int] | None:
    """(rows, columns), or None where `fd` is no terminal or does not know its size."""
    try:
        columns, rows = os.get_terminal_size(fd)
    except OSError:  # ENOTTY: a pipe or a file
        return None
    return (rows, columns) if rows and columns else None


def need_terminal(fd: int) -> None:
    """Raises Invalid when `fd` cannot be the terminal of a container."""
    if not os.isatty(fd):
        raise Invalid("the input device is not a TTY")


class DetachKeys:
    """Finds the detach keys in what is typed, also when they come in one by one."""

    def __init__(self, keys: bytes = DETACH_KEYS) -> None:
        self._keys = keys
        self._seen = 0

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """(what goes on to the container, whether the keys are complete).

        Keys that may become the sequence are held back, and go on when they do not.
        """
        passed = bytearray()
        for byte in data:
            if byte != self._keys[self._seen]:
                passed += self._keys[: self._seen]
                self._seen = 0
            if byte == self._keys[self._seen]:
                self._seen += 1
            else:
                passed.append(byte)
            if self._seen == len(self._keys):
                return bytes(passed), True
        return bytes(passed), False
