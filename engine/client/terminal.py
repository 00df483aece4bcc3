"""Handles the user's own terminal for the client: raw mode while a container uses it, its size, and the detach keys.

Runs in the client's one thread. The terminal's former mode is restored in every case.
"""

import os
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import Invalid

DETACH_KEYS = b"\x10\x11"  # ctrl-p ctrl-q, the same as docker's


@contextmanager
def raw(fd: int) -> Iterator[None]:
    """Keep the terminal `fd` in raw mode within the `with` block."""
    found = termios.tcgetattr(fd)
    try:
        # What the user has typed ahead is for the container: TCSAFLUSH would lose it.
        tty.setraw(fd, termios.TCSADRAIN)
        yield
    finally:
        # TCSADRAIN, not TCSAFLUSH: keys that the user typed ahead are for the shell that follows.
        termios.tcsetattr(fd, termios.TCSADRAIN, found)


def size(fd: int) -> tuple[int, int] | None:
    """(rows, columns), or None where `fd` is no terminal or has no known size."""
    try:
        columns, rows = os.get_terminal_size(fd)
    except OSError:  # ENOTTY: a pipe or a file
        return None
    return (rows, columns) if rows and columns else None


def need_terminal(fd: int) -> None:
    """Raise Invalid when `fd` is no terminal and so cannot be a container's."""
    if not os.isatty(fd):
        raise Invalid("the input device is not a TTY")


class DetachKeys:
    """Finds the detach keys in the user's input, also when they come in one by one."""

    def __init__(self, keys: bytes = DETACH_KEYS) -> None:
        self._keys = keys
        self._seen = 0

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Returns (the bytes for the container, whether the detach keys are complete).

        Keys that may begin the sequence are held back, and are passed on when they do not become it.
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


def detach_keys(text: str) -> bytes:
    """The bytes of a key sequence such as `ctrl-p,ctrl-q` or `a,ctrl-]`; empty for none. Raises Invalid.

    The keys that go with ctrl are a-z and `@[\\]^_`, as with docker.
    """
    keys = bytearray()
    for key in text.split(",") if text else ():
        name = key.lower().removeprefix("ctrl-")
        if len(key) == 1 and key.isascii():
            keys += key.encode()
        elif key.lower().startswith("ctrl-") and len(name) == 1 and (name in "@[\\]^_" or "a" <= name <= "z"):
            keys.append(ord(name.upper()) & 0x1F)
        else:
            raise Invalid(f"unknown character: '{key}' in the detach keys '{text}'")
    return bytes(keys)
