"""The words for errors are the same with every C library."""

import errno
import os
import socket
import ssl

import pytest

from engine.kernel import reasons


@pytest.mark.skipif(os.strerror(errno.EADDRINUSE) != "Address already in use", reason="this Python is not of glibc")
def test_the_words_are_those_of_glibc() -> None:
    assert {number: os.strerror(number).lower() for number in reasons.WORDS} == reasons.WORDS


def test_what_the_c_library_says_otherwise_is_said_as_docker_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "strerror", {errno.EADDRINUSE: "Address in use", errno.ELOOP: "Symbolic link loop"}.get)
    assert reasons.of(OSError(errno.EADDRINUSE, "Address in use")) == "address already in use"
    assert reasons.of(errno.ELOOP) == "too many levels of symbolic links"


def test_all_else_is_the_c_librarys() -> None:
    assert reasons.of(FileNotFoundError(errno.ENOENT, "No such file or directory")) == "no such file or directory"
    assert reasons.of(OSError("Not an errno")) == "not an errno"
    assert reasons.of(TimeoutError(errno.ETIMEDOUT, "Unable to freeze")) == "unable to freeze"
    assert reasons.of(ssl.SSLSyscallError(errno.EIO, "Of OpenSSL")) == "of openssl"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left on device"),
        (OSError(errno.ENOSPC, "No space left on device", "/a"), "/a: no space left on device"),
        (OSError(errno.EXDEV, os.strerror(errno.EXDEV), b"/a", None, "/b"), "/a -> /b: invalid cross-device link"),
        (OSError(errno.EBADF, "Bad file descriptor", 7), "bad file descriptor"),
        (OSError("a text alone"), "a text alone"),
        (socket.gaierror(-2, "Name or service not known"), "name or service not known"),
        (ssl.SSLError(1, "[SSL: X] Words"), "[SSL: X] Words"),
        (ValueError("Words"), "Words"),
    ],
)
def test_the_whole_text_of_an_error_has_nothing_of_pythons(error: Exception, text: str) -> None:
    assert reasons.whole(error) == text
