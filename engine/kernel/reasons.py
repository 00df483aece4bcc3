"""The words for a failed system call that docker's clients know: Go's, which are glibc's in small letters.

musl words some of them otherwise, such as `address in use`, and clients and people look for these texts. Pure.
"""

import errno
import os

WORDS = {
    errno.EIO: "input/output error",
    errno.ECHILD: "no child processes",
    errno.ENOMEM: "cannot allocate memory",
    errno.EBUSY: "device or resource busy",
    errno.EXDEV: "invalid cross-device link",
    errno.EMFILE: "too many open files",
    errno.ENOTTY: "inappropriate ioctl for device",
    errno.ESPIPE: "illegal seek",
    errno.EDOM: "numerical argument out of domain",
    errno.ERANGE: "numerical result out of range",
    errno.EDEADLK: "resource deadlock avoided",
    errno.ENAMETOOLONG: "file name too long",
    errno.ELOOP: "too many levels of symbolic links",
    errno.ETIME: "timer expired",
    errno.EOVERFLOW: "value too large for defined data type",
    errno.EILSEQ: "invalid or incomplete multibyte or wide character",
    errno.ENOTSOCK: "socket operation on non-socket",
    errno.EMSGSIZE: "message too long",
    errno.EOPNOTSUPP: "operation not supported",
    errno.EADDRINUSE: "address already in use",
    errno.EADDRNOTAVAIL: "cannot assign requested address",
    errno.ENETUNREACH: "network is unreachable",
    errno.ENETRESET: "network dropped connection on reset",
    errno.ECONNABORTED: "software caused connection abort",
    errno.EISCONN: "transport endpoint is already connected",
    errno.ENOTCONN: "transport endpoint is not connected",
    errno.ESHUTDOWN: "cannot send after transport endpoint shutdown",
    errno.ETIMEDOUT: "connection timed out",
    errno.EHOSTUNREACH: "no route to host",
    errno.EINPROGRESS: "operation now in progress",
    errno.EUCLEAN: "structure needs cleaning",
    errno.EDQUOT: "disk quota exceeded",
}
"""The errors that musl words otherwise, and a system call of the engine may meet."""


def of(error: OSError | int) -> str:
    """The reason of a failure as the inner part of an error's text: `no such file or directory`.

    error: it, or its errno
    """
    if isinstance(error, int):
        return WORDS.get(error) or os.strerror(error).lower()
    number, own = error.errno or 0, error.strerror or str(error)
    # Errors of other modules, such as ssl and socket.gaierror, have numbers of their own; some of ours have own words.
    known = WORDS.get(number) if type(error).__module__ == "builtins" and own == os.strerror(number) else None
    return known or own.lower()


def whole(error: BaseException) -> str:
    """The text of any exception for a client. That of Python for an OSError, `[Errno 28] No space left on device:
    '/file'`, becomes `/file: no space left on device`.
    """
    if not isinstance(error, OSError) or not str(error).startswith("[Errno "):
        return str(error)
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return ": ".join((" -> ".join(names), of(error)) if names else (of(error),))
