"""Reads and writes the files in which a monitor leaves its container's exit status, or the reason of its own crash.

The monitor writes them, and the resolver and the proxy where they crash; the daemon reads them. Each file appears whole
or not at all (write, rename). It is not synced, because a power cut that takes it takes the whole exec root. The exec
root is mostly a small tmpfs that other processes can fill, so the space of an exit file is reserved before its
container runs (`reserve`). What is written over that space, made shorter and renamed needs no new space.
`_muxer/process/finish.c` writes the same way.
"""

import contextlib
import os
import sys

EXIT = "exit"
CRASH = "crash"
RESOLVER_CRASH = "resolver.crash"
PROXY_CRASH = "proxy.crash"
_NEW = ".new"
_SPACE = 4096  # a page of a tmpfs, a block of a disk; what is written into it is shorter
_MAX = 64 * 1024


def reserve(exec_dir: str, name: str = EXIT) -> None:
    """Reserve the space that a later `write` of this name needs, one page. Raises OSError where there is none."""
    # Written, not fallocate(2): not every file system has fallocate(2), and this works as well on all of them.
    _put(os.path.join(exec_dir, name + _NEW), bytes(_SPACE))


def write(exec_dir: str, content: bytes, name: str = EXIT) -> None:
    """Put the encoded `Exited` message in place, or the text of a crash; in the reserved space, if there is one.

    Raises OSError where that fails; then there is no such file.
    """
    path = os.path.join(exec_dir, name)
    _put(path + _NEW, content)
    os.rename(path + _NEW, path)


def write_crash(exec_dir: str, name: str = CRASH) -> None:
    """Write the exception being handled and where it was raised, if there is any room for it.

    A monitor's crash text takes the space of the exit file, which the monitor is not going to write.
    """
    text = _shown(sys.exception()).encode("utf-8", "replace")[-_SPACE:]
    try:
        if name == CRASH:
            with contextlib.suppress(FileNotFoundError):  # no space was reserved, or it was used
                os.rename(os.path.join(exec_dir, EXIT + _NEW), os.path.join(exec_dir, CRASH + _NEW))
        write(exec_dir, text, name)
    except OSError:
        pass  # no process is there to be told; the daemon sees that this process is gone


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
    """What `traceback` would say, without the source lines: their files may be another version's by now."""
    lines, shown = [], set[int]()
    while error is not None and id(error) not in shown:  # one that was raised again may be its own cause
        shown.add(id(error))
        place, calls = error.__traceback__, []
        while place is not None:
            code = place.tb_frame.f_code
            calls.append(f"  {code.co_filename}:{place.tb_lineno} in {code.co_name}\n")
            place = place.tb_next
        lines.append("".join(calls) + f"{type(error).__name__}: {error}\n")
        error = error.__cause__ or error.__context__
    return "during the handling of that:\n".join(reversed(lines))


def _put(path: str, content: bytes) -> None:
    """Make this the content of the file, written over what it has.

    An O_TRUNC would free the file's space, and another process could take it.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        place = 0
        while place < len(content):
            place += os.pwrite(descriptor, content[place:], place)
        os.ftruncate(descriptor, place)
    finally:
        os.close(descriptor)
