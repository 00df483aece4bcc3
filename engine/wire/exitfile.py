"""The files in which a monitor leaves how its container ended, or why it crashed itself, for the daemon to read.

Written by the monitor, and by the resolver where it crashes; read by the daemon. Each appears whole or not at all
(write, rename); it is not synced, because a power cut that takes it takes the whole exec root. The exec root is mostly
a small tmpfs that others can fill, so the space of an exit file is taken before its container runs (`reserve`): what
is written over it, made shorter and renamed needs none. `_muxer/process/finish.c` writes the same way.
"""

import contextlib
import os
import sys

EXIT = "exit"
CRASH = "crash"
RESOLVER_CRASH = "resolver.crash"
_NEW = ".new"
_SPACE = 4096  # a page of a tmpfs, a block of a disk; what is written into it is shorter
_MAX = 64 * 1024


def reserve(exec_dir: str, name: str = EXIT) -> None:
    """Take the space that a later `write` of this name needs, one page. Raises OSError where there is none."""
    # Written, not fallocate(2): that is not to be had on every file system, and this is as good on all of them.
    _put(os.path.join(exec_dir, name + _NEW), bytes(_SPACE))


def write(exec_dir: str, content: bytes, name: str = EXIT) -> None:
    """Put the encoded `Exited` message in place, or the text of a crash; in the space that was reserved, if it was.

    Raises OSError where that cannot be: then there is no such file.
    """
    path = os.path.join(exec_dir, name)
    _put(path + _NEW, content)
    os.rename(path + _NEW, path)


def write_crash(exec_dir: str, name: str = CRASH) -> None:
    """Put in place what the present exception is and where it was raised, if there is any room for it.

    A monitor's takes the space of the exit file that it is not going to write.
    """
    text = _shown(sys.exception()).encode("utf-8", "replace")[-_SPACE:]
    try:
        if name == CRASH:
            with contextlib.suppress(FileNotFoundError):  # none was reserved, or it was used
                os.rename(os.path.join(exec_dir, EXIT + _NEW), os.path.join(exec_dir, CRASH + _NEW))
        write(exec_dir, text, name)
    except OSError:
        pass  # nobody is there to be told; that the process is gone says enough


def read(exec_dir: str, name: str = EXIT) -> bytes | None:
    """What was written, or None when the monitor has left no such file."""
    try:
        descriptor = os.open(os.path.join(exec_dir, name), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.read(descriptor, _MAX)
    finally:
        os.close(descriptor)


def _shown(error: BaseException | None) -> str:
    """What `traceback` would say, without the lines themselves: their files may be another version's by now."""
    lines = []
    while error is not None:
        place, calls = error.__traceback__, []
        while place is not None:
            code = place.tb_frame.f_code
            calls.append(f"  {code.co_filename}:{place.tb_lineno} in {code.co_name}\n")
            place = place.tb_next
        lines.append("".join(calls) + f"{type(error).__name__}: {error}\n")
        error = error.__cause__ or error.__context__
    return "while that was handled:\n".join(reversed(lines))


def _put(path: str, content: bytes) -> None:
    """Make this the content of the file, over what it has: an O_TRUNC would give its space to whoever waits for it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        place = 0
        while place < len(content):
            place += os.pwrite(descriptor, content[place:], place)
        os.ftruncate(descriptor, place)
    finally:
        os.close(descriptor)
