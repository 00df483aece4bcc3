"""Finds a container's command along PATH and checks that it can run, like Go's exec.LookPath and with docker's words.

Runs in init or a joiner, inside the new root and as the container's user. It never follows a magic link of /proc:
`/proc/self/exe` as a command, or as the interpreter of a script, would run the engine's own Python inside the container
and give the container a way to the host's file (CVE-2019-5736).
"""

import contextlib
import errno
import os
import stat

from engine.kernel import reasons
from engine.kernel.beneath import open_beneath
from engine.regex import regex

NOT_FOUND = 127
NOT_RUNNABLE = 126
NOT_EXECUTED = 255
_MOST_INTERPRETERS = 5
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})
_ESCAPED = {
    '"': r"\"",
    "\\": r"\\",
    **dict(zip("\a\b\f\n\r\t\v", (rf"\{letter}" for letter in "abfnrtv"), strict=True)),
}
_FIRST_LINE = regex(rb"#![ \t]*([^ \t\n\0]+)")


class Refusal(Exception):
    """Why a command cannot run: `errno`, the words (`str`), and `status`, the exit status a shell would give."""

    def __init__(self, number: int, text: str, status: int) -> None:
        """number: the errno."""
        super().__init__(text)
        self.errno = number
        self.status = status


def find(name: str, path: str, root_fd: int, *, certain: bool = False) -> str:
    """The path to execute for argv[0] `name`: itself if it has a slash, else the first match along `path` (PATH).

    root_fd: the root directory, for opening without magic links. Raises Refusal.
    certain: also refuse what only execve could decide; for a caller that sees another /proc/self than the process that
        executes
    """
    if "/" in name:
        try:
            _check(name, root_fd, certain)
        except OSError as error:
            raise _refusal(name, error) from error
        return name
    for directory in path.split(":") if path else ():
        candidate = f"{directory or '.'}/{name}"
        try:
            _check(candidate, root_fd, certain)
        except OSError as error:  # LookPath's rule: whatever is wrong with it, try the next
            if certain and error.errno not in _MISSING:
                raise _refusal(name, error) from error
            continue
        return candidate
    raise Refusal(errno.ENOENT, f"exec: {_quoted(name)}: executable file not found in $PATH", NOT_FOUND)


def _check(path: str, root_fd: int, certain: bool, depth: int = 0) -> None:
    """Raises OSError unless the file, and the interpreter that its first line names, may be executed."""
    absolute = path if path.startswith("/") else f"{os.getcwd()}/{path}"
    place = open_beneath(root_fd, absolute, os.O_PATH)
    try:
        found = os.fstat(place)
    finally:
        os.close(place)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    # If the kernel, following all links, finds another file, a magic link was on the way (Linux before 5.6).
    if not os.path.samestat(found, os.stat(path)):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    interpreter = _interpreter(absolute, root_fd) if stat.S_ISREG(found.st_mode) else ""
    if interpreter and depth < _MOST_INTERPRETERS:
        _check_interpreter(interpreter, root_fd, certain, depth + 1)


def _interpreter(absolute: str, root_fd: int) -> str:
    """The interpreter after `#!`; empty for none, and for a file that may be executed but not read."""
    try:
        # The file may have been replaced by a FIFO meanwhile, and opening it must not wait.
        fd = open_beneath(root_fd, absolute, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except PermissionError:
        return ""
    try:
        head = os.read(fd, 256)
    finally:
        os.close(fd)
    # As the kernel reads it (binfmt_script): blanks and tabs separate words, and no other character that Python calls a
    # space.
    found = _FIRST_LINE.match(head)
    return os.fsdecode(found[1]) if found else ""


def _check_interpreter(interpreter: str, root_fd: int, certain: bool, depth: int) -> None:
    """Check only that an interpreter is not behind a magic link: execve itself reports anything else that is wrong with
    it.

    For a magic link openat2(2) gives EXDEV and `_check` ELOOP. Before Linux 5.6, an interpreter that exists only when
    links are followed is behind one.
    """
    try:
        _check(interpreter, root_fd, certain, depth)
    except OSError as error:
        if (
            certain
            or error.errno in (errno.ELOOP, errno.EXDEV)
            or (error.errno in _MISSING and os.path.exists(interpreter))
        ):
            raise


def _refusal(name: str, error: OSError) -> Refusal:
    reason = reasons.of(error)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        status = NOT_FOUND if error.errno == errno.ENOENT else NOT_RUNNABLE
        return Refusal(error.errno, f"exec: {_quoted(name)}: stat {name}: {reason}", status)
    if error.errno == errno.EISDIR:
        return Refusal(errno.EACCES, f"exec: {_quoted(name)}: is a directory: permission denied", NOT_RUNNABLE)
    return Refusal(error.errno or 0, f"exec: {_quoted(name)}: {reason}", NOT_RUNNABLE)


def _quoted(text: str) -> str:
    """A word in Go's quotation marks, with control characters escaped."""
    return f'"{"".join(_quoted_character(character) for character in text)}"'


def _quoted_character(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    return f"\\x{ord(character):02x}" if character < " " or character == "\x7f" else character


def end_unexecuted(path: str, error: OSError) -> None:
    """Ends a process that execve(2) itself has refused: a wrong format, a missing interpreter, too many arguments.

    Its place is the container's by then, as with runc: it tells the container's stderr, and its exit code is recorded.
    """
    with contextlib.suppress(OSError):  # nobody reads it
        os.write(2, f"exec {path}: {reasons.of(error)}\n".encode("utf-8", "surrogateescape"))
    os._exit(NOT_EXECUTED)
